"""The controller: pure values (domain), pure stages (policy), the loop, configuration and the command line."""
