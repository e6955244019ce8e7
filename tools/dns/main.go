// CoreDNS with what it takes to know the services of a Kubernetes, and nothing else: of all its plugins it would be
// three times as large.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
