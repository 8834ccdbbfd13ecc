package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// verification reads what a request's page says of whether its slices are enforced.
func (s *Server) verification(ctx context.Context, actor rayslice.User, request rayslice.Request) (v web.VerificationView, err error) {
	if request.State.Open() || request.ClusterUID == "" {
		return v, nil // it never had a worker
	}
	if v.Runs, err = s.config.Store.Verifications(ctx, actor, request.ID); err != nil {
		return v, err
	}
	v.Certificates, err = s.config.Store.Certificates(ctx, actor, request.ID)
	running := request.State == rayslice.StateReady || request.State == rayslice.StateAttention
	v.CanVerify = running && actor.CanVerify(request) && (len(v.Runs) == 0 || !v.Runs[0].Open())
	return v, err
}

// verifyCluster asks for a verification of all workers.
func (s *Server) verifyCluster(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	if _, err := s.config.Store.AskVerification(c.Request().Context(), user(c), id); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/clusters/"+id+"?done=verify#verification")
}

// verificationJSON is what programs read about whether a cluster's slices are enforced.
type verificationJSON struct {
	Badge   rayslice.Badge    `json:"badge"`
	Gate    *string           `json:"gate"` // "due", "done" or "off"; null = the cluster is not so far
	Workers []workerProofJSON `json:"workers"`
	Runs    []runJSON         `json:"runs"` // latest first, at most 50
}

// workerProofJSON is the latest certificate of one worker.
type workerProofJSON struct {
	Pod         string                `json:"pod"`
	PodUID      string                `json:"pod_uid"`
	Verdict     *rayslice.Enforcement `json:"verdict"` // as it counts now; null = nobody has looked
	Certificate *rayslice.Certificate `json:"certificate"`
}

// runJSON is one run of the probe.
type runJSON struct {
	Run       string      `json:"run"`
	By        *string     `json:"by"` // null = the portal
	AskedAt   time.Time   `json:"asked_at"`
	StartedAt *time.Time  `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at"`
	Reason    *reasonJSON `json:"reason"` // why it brought no evidence; null = it did, or has not ended
}

func (s *Server) apiVerification(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	ctx, actor := c.Request().Context(), user(c)
	cluster, err := s.config.Store.Cluster(ctx, actor, id)
	if err != nil {
		return err
	}
	standing, err := s.config.Store.StandingCertificates(ctx, actor, id)
	if err != nil {
		return err
	}
	runs, err := s.config.Store.Verifications(ctx, actor, id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, toVerification(c, cluster, standing, runs))
}

func toVerification(c echo.Context, cluster rayslice.Cluster, certificates []rayslice.Certificate, runs []rayslice.Verification) verificationJSON {
	v := verificationJSON{Badge: rayslice.NewBadge(cluster, certificates), Gate: said(string(cluster.Verification)),
		Workers: []workerProofJSON{}, Runs: []runJSON{}}
	for _, w := range cluster.Workers {
		if w.Slice.IsZero() {
			continue
		}
		proof := workerProofJSON{Pod: w.Name, PodUID: w.UID}
		for i, found := range certificates {
			if found.Target.PodUID == w.UID {
				verdict := found.Now(w.UID, w.Node, found.NodeDriver)
				proof.Verdict, proof.Certificate = &verdict, &certificates[i]
			}
		}
		v.Workers = append(v.Workers, proof)
	}
	for _, run := range runs {
		v.Runs = append(v.Runs, toRun(c, run))
	}
	return v
}

func toRun(c echo.Context, run rayslice.Verification) runJSON {
	r := runJSON{Run: run.Run, By: said(run.By), AskedAt: run.AskedAt, StartedAt: known(run.StartedAt), EndedAt: known(run.EndedAt)}
	if !run.Reason.IsZero() {
		r.Reason = &reasonJSON{Code: run.Reason.Code, Text: visitOf(c).locale.Reason(run.Reason)}
	}
	return r
}

// apiVerify asks for a verification and answers with the run that does it: the open one, if there is one.
func (s *Server) apiVerify(c echo.Context) error {
	id, err := requestID(c)
	if err != nil {
		return err
	}
	run, err := s.config.Store.AskVerification(c.Request().Context(), user(c), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, toRun(c, run))
}
