"""The server of `meantime view`: histories as lanes and tiles, and answers about them."""
