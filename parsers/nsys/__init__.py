"""Nsight Systems: its sqlite exports, its reports and the text of ``nsys stats``."""
