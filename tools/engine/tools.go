//go:build tools

// Package tools keeps the engine's command among this module's requirements, so that go.sum covers its whole build.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
