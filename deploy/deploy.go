// Package deploy holds the manifests by which rayslice runs in a cluster.
package deploy

import _ "embed"

// Rights are what the portal's service account needs, in the order to apply them: its namespace, its rights, and the
// right to make team namespaces.
var Rights = []string{namespace, rbac, createNamespaces}

var (
	//go:embed namespace.yaml
	namespace string
	//go:embed rbac.yaml
	rbac string
	//go:embed create-namespaces.yaml
	createNamespaces string
)
