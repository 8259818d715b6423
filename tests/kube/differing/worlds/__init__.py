"""Small clusters and pods at random: what is played here, by theme."""
