"""What is known of the integers and addresses of a TTGIR file: an analysis of every axis."""
