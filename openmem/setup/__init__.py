"""From answers to a plan: the wizard, the doctor, install and uninstall."""
