package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// readyWait bounds the look at the database.
	readyWait = 2 * time.Second
	// silentTooLong is how long the watches may say nothing before the portal calls itself not ready. It is long on
	// purpose: pages work while the API server is away, and say how old their data is (jupyterhub/kubespawner#209).
	silentTooLong = 15 * time.Minute
)

// readiness is the answer of /readyz.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // why not; also what is wrong without making it unready
}

// showAlive says that the process answers.
func (s *Server) showAlive(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// showReady says whether requests can be served, and what is wrong. It names parts, never their errors.
func (s *Server) showReady(c echo.Context) error {
	answer := readiness{Ready: true, Reasons: []string{}}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyWait)
	defer cancel()
	if err := s.config.Store.Ping(ctx); err != nil {
		answer.Ready = false
		answer.Reasons = append(answer.Reasons, "database: does not answer")
		visitOf(c).failure = err
	}
	health := s.config.Health()
	if !health.Synced {
		answer.Reasons = append(answer.Reasons, "kubernetes: not read yet")
	}
	if health.WatchAge > silentTooLong {
		answer.Ready = false
		answer.Reasons = append(answer.Reasons, "kubernetes: silent for "+health.WatchAge.Round(time.Second).String())
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	return c.JSON(status, answer)
}
