"""The example operator: keeps a CronJob for every Backup."""
