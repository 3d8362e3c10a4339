"""The example operator: keeps a CronJob for every Backup, and looks after what is asked for."""
