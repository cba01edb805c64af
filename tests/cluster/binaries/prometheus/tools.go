//go:build tools

// Package tools names the commands that are built, so that go.mod and go.sum hold all that they need.
package tools

import _ "github.com/prometheus/prometheus/cmd/prometheus"
