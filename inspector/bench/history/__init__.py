"""Keeps earlier measurements and analyses on disk, under the user's data folder."""
