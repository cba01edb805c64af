"""What others read: the JSON API, live updates, the dashboard and the controller's own metrics."""
