package main

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayslice/rayslice"
)

// TestGuardsWithTheShippedRights runs the program with the rights of deploy/: what guards a team's namespace stands, and the
// fleet's report names nothing that is missing (B079, B130).
func TestGuardsWithTheShippedRights(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	asked, err := i.call(http.MethodPost, "/api/v1/requests", "guard", draftOf("guard", 2))
	i.must(err)
	i.untilState(asked.ID, rayslice.StateReady)
	i.until("both policies and the quota stand", func() bool {
		policies, err := i.core.NetworkingV1().NetworkPolicies(i.namespace).List(t.Context(), metav1.ListOptions{})
		i.must(err)
		quotas, err := i.core.CoreV1().ResourceQuotas(i.namespace).List(t.Context(), metav1.ListOptions{})
		i.must(err)
		return len(policies.Items) == 2 && len(quotas.Items) == 1 && len(quotas.Items[0].Spec.Hard) == 2
	})
	fleet, err := i.store.Fleet(t.Context(), rayslice.System)
	i.must(err)
	if len(fleet.Problems)+len(fleet.Guards) > 0 {
		t.Errorf("problems: %+v %+v", fleet.Problems, fleet.Guards)
	}
	cluster, err := i.store.Cluster(t.Context(), rayslice.System, asked.ID)
	i.must(err)
	if !cluster.Unguarded.IsZero() {
		t.Errorf("open: %+v", cluster.Unguarded)
	}
}
