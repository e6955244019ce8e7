// Pulumi's plugin for Kubernetes, from its own packages. Its own command embeds files that are made when it is released
// and that its module does not have: what it publishes of its types, for which nothing here asks.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	provider.Serve("kubernetes", version.Version, []byte(`{"name": "kubernetes"}`), []byte("{}"))
}
