"""What a backup holds, keeps and gives back: the parts of the jobs `backup` and `restore`."""
