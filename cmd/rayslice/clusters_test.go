package main

import "testing"

func TestClustersDomain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config Config
		want   string
		valid  bool
	}{
		"on this machine":             {Config{Addr: "127.0.0.1:8080"}, "clusters.localhost", true},
		"on this machine by name":     {Config{Addr: ":8080", PublicURL: "http://localhost:8080"}, "clusters.localhost", true},
		"switched off":                {Config{Addr: "127.0.0.1:8080", ClustersDomain: "none"}, "", true},
		"elsewhere, not set":          {Config{PublicURL: "https://rayslice.example"}, "", true},
		"elsewhere":                   {Config{PublicURL: "https://rayslice.example", ClustersDomain: "Clusters.example"}, "clusters.example", true},
		"below the portal":            {Config{PublicURL: "https://rayslice.example", ClustersDomain: "clusters.rayslice.example"}, "clusters.rayslice.example", true},
		"elsewhere without TLS":       {Config{PublicURL: "http://rayslice.example", ClustersDomain: "clusters.example"}, "clusters.example", false},
		"the portal's own host":       {Config{PublicURL: "https://rayslice.example", ClustersDomain: "rayslice.example"}, "rayslice.example", false},
		"a portal below the domain":   {Config{PublicURL: "https://a.rayslice.example", ClustersDomain: "rayslice.example"}, "rayslice.example", false},
		"a name that is none":         {Config{PublicURL: "https://rayslice.example", ClustersDomain: "*.example"}, "*.example", false},
		"this machine's, for another": {Config{PublicURL: "http://rayslice.example", ClustersDomain: "clusters.localhost"}, "clusters.localhost", false},
	} {
		if got, valid := tc.config.clustersDomain(), tc.config.validClustersDomain(); got != tc.want || valid != tc.valid {
			t.Errorf("%s: %q, valid %v, want %q, %v", name, got, valid, tc.want, tc.valid)
		}
	}
}
