package main

import (
	"fmt"

	"github.com/rayslice/rayslice/k8s"
)

// prometheus returns where use is read instead of from Ray heads; nil = from heads.
func (c Config) prometheus() (*k8s.PrometheusConfig, error) {
	if c.UsageSource != "prometheus" {
		return nil, nil
	}
	names, err := c.seriesNames()
	return &k8s.PrometheusConfig{URL: c.PrometheusURL, Names: names}, err
}

// seriesNames returns those of the file, or the preset's.
func (c Config) seriesNames() (names k8s.SeriesNames, err error) {
	if c.PrometheusNames == "" {
		return k8s.Preset(c.PrometheusPreset)
	}
	if err = readYAML(c.PrometheusNames, "", nil, &names, func() error { return names.Validate() }); err != nil {
		err = fmt.Errorf("RAYSLICE_PROMETHEUS_NAMES: %w", err)
	}
	return names, err
}
