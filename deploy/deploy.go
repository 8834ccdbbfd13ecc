// Package deploy holds the manifests of the portal; those of its rights are embedded, so that the demo and the tests run
// with the same ones as a cluster.
package deploy

import "embed"

// Rights are the files with the portal's namespace, its service account and what that may do.
//
//go:embed namespace.yaml rbac.yaml create-namespaces.yaml
var Rights embed.FS
