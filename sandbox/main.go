// Command sandbox runs a real Kubernetes control plane with the real KubeRay operator on a simulated GPU fleet.
package main

import (
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {}
