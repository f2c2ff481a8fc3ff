"""What `hindlake doctor` looks at: a module for each side of the system, of functions from a patient to findings.

configured  the settings themselves
place       home, disk, spool, clock
endpoints   addresses that the settings name
stored      generation, indexes, vectors, files
working     leases, runs, schedules, what waits
recalled    memories that are there and are not found
"""
