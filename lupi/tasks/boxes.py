class BoxLocalization: pass
