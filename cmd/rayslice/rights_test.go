package main

import (
	"os"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayslice/rayslice/k8s"
)

// administrator returns the kubeconfig of the tests' sandbox.
func administrator(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SANDBOX_KUBECONFIG")
	switch {
	case path != "":
	case os.Getenv("CI") == "true":
		t.Fatal("SANDBOX_KUBECONFIG is not set: CI needs the sandbox")
	default:
		t.Skip("SANDBOX_KUBECONFIG is not set: no sandbox to test on")
	}
	return path
}

// TestGrantRights asks a real API server what the portal may do once deploy/ is applied: what it needs, and nothing that would
// let it read secrets, run code in a pod or take somebody else's pods away.
func TestGrantRights(t *testing.T) {
	admin := administrator(t)
	for range 2 {
		if err := grantRights(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	portal, err := k8s.LoadConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	portal.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:rayslice:rayslice",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:rayslice", "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(portal)
	if err != nil {
		t.Fatal(err)
	}
	resource := func(verb, group, resource, namespace string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace}
	}
	sub := func(verb, subresource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Resource: "pods", Subresource: subresource, Namespace: "team-vision"}
	}
	lease := func(verb, namespace, name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: name}
	}
	quota := func(verb, namespace, name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Resource: "resourcequotas", Namespace: namespace, Name: name}
	}
	tests := map[string]struct {
		may  authorizationv1.ResourceAttributes
		want bool
	}{
		"watch RayClusters everywhere":         {resource("watch", "ray.io", "rayclusters", ""), true},
		"apply a RayCluster":                   {resource("patch", "ray.io", "rayclusters", "team-vision"), true},
		"create one by applying":               {resource("create", "ray.io", "rayclusters", "team-vision"), true},
		"delete a RayCluster":                  {resource("delete", "ray.io", "rayclusters", "team-vision"), true},
		"watch pods everywhere":                {resource("watch", "", "pods", ""), true},
		"watch events everywhere":              {resource("watch", "", "events", ""), true},
		"watch nodes":                          {resource("watch", "", "nodes", ""), true},
		"reach a head":                         {sub("create", "portforward"), true},
		"watch network policies everywhere":    {resource("watch", "networking.k8s.io", "networkpolicies", ""), true},
		"apply a network policy":               {resource("patch", "networking.k8s.io", "networkpolicies", "team-vision"), true},
		"create a policy by applying":          {resource("create", "networking.k8s.io", "networkpolicies", "team-vision"), true},
		"reach a head over WebSocket":          {sub("get", "portforward"), true},
		"watch its quotas everywhere":          {quota("watch", "", "rayslice"), true},
		"apply its quota":                      {quota("patch", "team-vision", "rayslice"), true},
		"create its quota by applying":         {quota("create", "team-vision", "rayslice"), true},
		"watch all quotas":                     {quota("watch", "", ""), false},
		"change another's quota":               {quota("patch", "team-vision", "compute"), false},
		"delete a quota":                       {quota("delete", "team-vision", "rayslice"), false},
		"create a namespace by applying":       {resource("patch", "", "namespaces", ""), true},
		"stand for leader":                     {lease("create", "rayslice", ""), true},
		"lead":                                 {lease("update", "rayslice", "rayslice"), true},
		"take another's lease":                 {lease("update", "rayslice", "other"), false},
		"take a lease elsewhere":               {lease("update", "kube-system", "rayslice"), false},
		"delete all RayClusters":               {resource("deletecollection", "ray.io", "rayclusters", "team-vision"), false},
		"make a RayJob":                        {resource("create", "ray.io", "rayjobs", "team-vision"), false},
		"delete a network policy":              {resource("delete", "networking.k8s.io", "networkpolicies", "team-vision"), false},
		"make an ingress":                      {resource("create", "networking.k8s.io", "ingresses", "team-vision"), false},
		"read a secret":                        {resource("get", "", "secrets", "team-vision"), false},
		"list secrets":                         {resource("list", "", "secrets", ""), false},
		"run something in a pod":               {sub("create", "exec"), false},
		"run something in a pod by WebSocket":  {sub("get", "exec"), false},
		"read a pod's log":                     {sub("get", "log"), false},
		"create a pod":                         {resource("create", "", "pods", "team-vision"), false},
		"delete a pod":                         {resource("delete", "", "pods", "team-vision"), false},
		"change a node":                        {resource("patch", "", "nodes", ""), false},
		"delete a namespace":                   {resource("delete", "", "namespaces", ""), false},
		"give itself rights":                   {resource("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""), false},
		"change the rules of admission":        {resource("patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", ""), false},
		"act as somebody else":                 {resource("impersonate", "", "users", ""), false},
		"make a token for its service account": {authorizationv1.ResourceAttributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: "rayslice"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &test.may}}
			answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Status.Allowed != test.want {
				t.Errorf("allowed %v, want %v", answer.Status.Allowed, test.want)
			}
		})
	}
}
