"""From image files to boxes: localizer, parameter search, evaluation and pictures."""

from lupi.localize.evaluation import evaluate_boxes
from lupi.localize.gallery import save_overlay, write_gallery
from lupi.localize.localizer import Localizer
from lupi.localize.search import paper_grid, search_parameters

__all__ = ["Localizer", "evaluate_boxes", "paper_grid", "save_overlay", "search_parameters", "write_gallery"]
