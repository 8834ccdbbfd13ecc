package k8s

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rayslice/rayslice"
)

// guardName is the name of what the portal keeps in a team's namespace, beside the clusters' own.
const guardName = rayslice.QuotaName

// labelCluster is the label by which KubeRay marks a cluster's pods, however its template was edited.
const labelCluster = "ray.io/cluster"

// Ports of a Ray cluster that people need. Whoever reaches one of the first three runs any code in the cluster, so none
// of them is for other teams (ray-project/kuberay#1413, ray-project/ray#49080).
const (
	clientPort  = 10001 // ray://
	servePort   = 8000
	metricsPort = 8080
)

// NamespacePolicy returns the NetworkPolicy that lets nobody in to any pod with our label. It stands before the first
// cluster does, so that none is open between its creation and its own policy, nor while its pods go after it.
func NamespacePolicy(namespace, team string) *networkingv1.NetworkPolicy {
	return policy(metav1.ObjectMeta{Name: guardName, Namespace: namespace, Labels: map[string]string{LabelTeam: team}},
		metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: LabelRequest, Operator: metav1.LabelSelectorOpExists}}})
}

// ClusterPolicy returns the NetworkPolicy beside a request's RayCluster, which it goes with by the RayCluster's uid: its
// own pods reach each other, the team's reach the ports people need, and the namespaces named reach the dashboard. It is
// pure. What pods may call is left open; what else may call them, e.g. a Prometheus, other policies can add.
func ClusterPolicy(request rayslice.Request, uid types.UID, dashboard ...string) *networkingv1.NetworkPolicy {
	own := metav1.LabelSelector{MatchLabels: map[string]string{labelCluster: request.ObjectName()}}
	p := policy(metav1.ObjectMeta{
		Name: request.ObjectName(), Namespace: request.Namespace,
		Labels: map[string]string{LabelRequest: request.ID, LabelTeam: request.Team},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster", Name: request.ObjectName(), UID: uid,
		}},
	}, own)
	team := metav1.LabelSelector{}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &own}}},
		{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &team}}, Ports: ports(clientPort, dashboardPort, servePort, metricsPort)},
	}
	if peers := namespacesNamed(dashboard); len(peers) > 0 { // a rule without peers would let everybody in
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers, Ports: ports(dashboardPort)})
	}
	return p
}

func policy(meta metav1.ObjectMeta, pods metav1.LabelSelector) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: meta,
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: pods, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
}

// ports writes the protocol out, as the API server stores it.
func ports(numbers ...int) []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort
	for _, n := range numbers {
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt(n))})
	}
	return all
}

// namespacesNamed returns the peers that are all pods of these namespaces, each once; "" names none.
func namespacesNamed(names []string) []networkingv1.NetworkPolicyPeer {
	var all []networkingv1.NetworkPolicyPeer
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			continue
		}
		all = append(all, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: name}, // the API server sets it; nobody can borrow another's
		}})
	}
	return all
}

// policyManifest returns the JSON to apply. A policy that lets nobody in says so with an empty list, which Go's types leave
// out: without it, rules that somebody else has added would stay.
func policyManifest(p *networkingv1.NetworkPolicy) ([]byte, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return nil, err
	}
	if len(p.Spec.Ingress) == 0 {
		object["spec"].(map[string]any)["ingress"] = []any{}
	}
	return json.Marshal(object)
}

// policyView is a NetworkPolicy of ours as the cache keeps it: enough to see that it is as it should be.
type policyView struct {
	metav1.ObjectMeta // name, namespace, UID and resource version only

	request string
	digest  [sha256.Size]byte
}

func slimPolicy(obj any) (any, error) {
	p, ok := obj.(*networkingv1.NetworkPolicy)
	if !ok {
		return obj, nil
	}
	return &policyView{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion},
		request:    p.Labels[LabelRequest],
		digest:     policyDigest(p),
	}, nil
}

// policyDigest is of what we set: rules for what pods may call do not count while the policy's types leave them out.
func policyDigest(p *networkingv1.NetworkPolicy) [sha256.Size]byte {
	var owners []types.UID
	for _, o := range p.OwnerReferences {
		owners = append(owners, o.UID)
	}
	slices.Sort(owners)
	text, err := json.Marshal([]any{
		p.Labels[LabelRequest], p.Labels[LabelTeam], owners, p.Spec.PodSelector, append([]networkingv1.NetworkPolicyIngressRule{}, p.Spec.Ingress...), p.Spec.PolicyTypes,
	})
	if err != nil {
		panic(err) // plain data
	}
	return sha256.Sum256(text)
}
