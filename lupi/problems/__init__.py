"""What is solved: frozen problem objects that know their objective, duality gap and KKT residuals."""
