package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayslice/rayslice"
)

func TestRequestMetrics(t *testing.T) {
	var away error
	m := newRequestMetrics(func(context.Context, rayslice.User) (map[rayslice.State]int, time.Time, error) {
		return map[rayslice.State]int{rayslice.StatePending: 3}, time.Now().Add(-time.Hour), away
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	got, err := registry.Gather()
	if err != nil || len(got) != 3 {
		t.Fatalf("%d metrics, %v", len(got), err)
	}
	for _, family := range got {
		value := family.GetMetric()[0].GetGauge().GetValue()
		switch name := family.GetName(); {
		case strings.HasSuffix(name, "_waiting") && value != 3, strings.HasSuffix(name, "_seconds") && (value < 3600 || value > 3700):
			t.Errorf("%s is %v", name, value)
		}
	}
	away = errors.New("the database is away")
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d metrics without a database: unknown is not zero", n)
	}
}
