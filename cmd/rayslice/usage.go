package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
)

// openCollector prepares what reads the use of slices. Every replica runs one.
func (p *portal) openCollector(catalogue rayslice.Catalogue, registry *prometheus.Registry) error {
	from, err := p.config.prometheus()
	if err != nil {
		return err
	}
	p.collector, err = k8s.NewCollector(k8s.CollectorConfig{
		Store: p.store, Heads: p.controller.Heads(), Prometheus: from, Running: p.controller.Running, Catalogue: catalogue,
		Every: p.config.UsageEvery, Watched: p.config.UsageWatchedEvery, Logger: p.logger, Registerer: registry,
	})
	return err
}
