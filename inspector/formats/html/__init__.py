"""Reports and profiles as one HTML file that needs nothing else; plots are inline SVG."""
