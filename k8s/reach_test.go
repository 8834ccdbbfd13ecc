package k8s_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// No network of the sandbox enforces policies, so what they allow is worked out here, as the API defines it: a pod that a
// policy selects is closed but for what some policy lets in. Rules that we do not write (address blocks, named ports) let
// nothing in.

// reachable reports whether a TCP connection from one pod to a port of another is let in. Namespaces are by their name.
func reachable(t *testing.T, policies []networkingv1.NetworkPolicy, namespaces map[string]corev1.Namespace, from, to corev1.Pod, port int) bool {
	t.Helper()
	closed := false
	for _, p := range policies {
		if p.Namespace != to.Namespace || !matches(t, &p.Spec.PodSelector, to.Labels) || !onIngress(p) {
			continue
		}
		closed = true
		for _, rule := range p.Spec.Ingress {
			if fromPeer(t, rule.From, p.Namespace, namespaces, from) && onPort(rule.Ports, port) {
				return true
			}
		}
	}
	return !closed
}

func onIngress(p networkingv1.NetworkPolicy) bool {
	for _, kind := range p.Spec.PolicyTypes {
		if kind == networkingv1.PolicyTypeIngress {
			return true
		}
	}
	return len(p.Spec.PolicyTypes) == 0
}

// fromPeer reads an empty list as everybody.
func fromPeer(t *testing.T, peers []networkingv1.NetworkPolicyPeer, home string, namespaces map[string]corev1.Namespace, from corev1.Pod) bool {
	t.Helper()
	for _, peer := range peers {
		if peer.IPBlock != nil {
			continue
		}
		there := peer.NamespaceSelector != nil && matches(t, peer.NamespaceSelector, namespaces[from.Namespace].Labels)
		if peer.NamespaceSelector == nil {
			there = from.Namespace == home
		}
		if there && (peer.PodSelector == nil || matches(t, peer.PodSelector, from.Labels)) {
			return true
		}
	}
	return len(peers) == 0
}

func onPort(ports []networkingv1.NetworkPolicyPort, port int) bool {
	for _, p := range ports {
		if p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		if p.Port == nil {
			return true
		}
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		if p.Port.Type == intstr.Int && int(p.Port.IntVal) <= port && port <= int(last) {
			return true
		}
	}
	return len(ports) == 0
}

func matches(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(of))
}
