"""Readers of the research data that the experiments use."""

from experiments.data_awa import load_awa
from experiments.data_images import cub_to_coco, load_caltech101, load_cub, load_oxford_pets
from experiments.data_mnist_plus import load_mnist_plus
from experiments.data_movie_rationales import load_movie_rationales
from experiments.data_research_tables import load_research_table
from experiments.data_tiny_imagenet import load_tiny_imagenet_boxes
from experiments.data_wiki_image_text import load_wiki_image_text

__all__ = [
    "cub_to_coco",
    "load_awa",
    "load_caltech101",
    "load_cub",
    "load_mnist_plus",
    "load_movie_rationales",
    "load_oxford_pets",
    "load_research_table",
    "load_tiny_imagenet_boxes",
    "load_wiki_image_text",
]
