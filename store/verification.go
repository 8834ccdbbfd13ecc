package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

const verificationColumns = `
	SELECT
		v.run,
		v.request_id,
		v.asked_by,
		v.asked_at,
		v.started_at,
		v.ended_at,
		v.pods,
		coalesce(v.reason, '{}')
	FROM `

func scanVerification(row pgx.CollectableRow) (v rayslice.Verification, err error) {
	var started, ended pgtype.Timestamptz
	err = row.Scan(&v.Run, &v.RequestID, &v.By, &v.AskedAt, &started, &ended, &v.Pods, &v.Reason)
	v.AskedAt, v.StartedAt, v.EndedAt = v.AskedAt.UTC(), started.Time.UTC(), ended.Time.UTC()
	return v, err
}

// VerificationWork returns what there is to verify of one request, for the portal itself.
func (s *Store) VerificationWork(ctx context.Context, actor rayslice.User, requestID string) (rayslice.VerificationWork, error) {
	if !actor.System {
		return rayslice.VerificationWork{}, errPortalOnly
	}
	var w rayslice.VerificationWork
	err := s.db.QueryRow(ctx, `
		SELECT
			coalesce((r.draft ->> 'unverified')::boolean, false) OR coalesce((l.rules ->> 'unverified')::boolean, false)
		FROM requests r
		LEFT JOIN rules l ON l.team = r.team
		WHERE r.id = $1`, requestID).Scan(&w.Off)
	if err != nil {
		return w, missing(err, "request")
	}
	if w.Covered, err = coveredPods(ctx, s.db, requestID); err != nil {
		return w, answer(err)
	}
	w.Open, err = openVerification(ctx, s.db, requestID)
	return w, answer(err)
}

// coveredPods returns the pods that ended runs have looked at. A run whose workers had gone has not.
func coveredPods(ctx context.Context, db DB, requestID string) ([]rayslice.CoveredPod, error) {
	rows, _ := db.Query(ctx, `
		SELECT
			pod,
			count(*),
			max(v.ended_at),
			(array_agg(coalesce(CASE
				WHEN c.enforcement = 'inconclusive' THEN c.certificate -> 'judgement' -> 'reason'
				WHEN c.id IS NULL THEN v.reason
			END, '{}') ORDER BY v.ended_at DESC))[1]
		FROM verifications v
		CROSS JOIN unnest(v.pods) pod
		LEFT JOIN certificates c ON c.run = v.run AND c.pod_uid = pod
		WHERE v.request_id = $1
			AND v.ended_at IS NOT NULL
			AND v.reason ->> 'code' IS DISTINCT FROM 'verify_gone'
		GROUP BY pod
		ORDER BY pod`, requestID)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c rayslice.CoveredPod, err error) {
		err = row.Scan(&c.Pod, &c.Runs, &c.At, &c.Reason)
		c.At = c.At.UTC()
		return c, err
	})
}

func openVerification(ctx context.Context, db DB, requestID string) (*rayslice.Verification, error) {
	rows, _ := db.Query(ctx, verificationColumns+`verifications v
		WHERE v.request_id = $1
			AND v.ended_at IS NULL`, requestID)
	open, err := pgx.CollectRows(rows, scanVerification)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	return &open[0], nil
}

// StartVerification notes that a run over the pods begins: the one that is open, or a new one of that name. It returns the
// run as it is now; beginning one that has begun changes nothing, so that two portals do the same run. KindConflict when the
// cluster is on its way out.
func (s *Store) StartVerification(ctx context.Context, actor rayslice.User, requestID, run string, pods []string) (v rayslice.Verification, err error) {
	if !actor.System {
		return v, errPortalOnly
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := mustRun(ctx, tx, requestID); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, `
			WITH v AS (
				INSERT INTO verifications (
					run,
					request_id,
					started_at,
					pods
				)
				VALUES ($1, $2, now(), coalesce($3::text[], '{}'))
				ON CONFLICT (request_id) WHERE ended_at IS NULL DO UPDATE
				SET
					started_at = coalesce(verifications.started_at, now()),
					pods = CASE WHEN verifications.started_at IS NULL THEN excluded.pods ELSE verifications.pods END
				RETURNING *
			)`+verificationColumns+`v`, run, requestID, pods)
		v, err = pgx.CollectExactlyOneRow(rows, scanVerification)
		if err == nil {
			notify(tx, Change{Kind: KindCluster, ID: requestID})
		}
		return err
	})
	return v, err
}

// mustRun holds the request in its state until tx ends, and refuses one whose cluster does not run.
func mustRun(ctx context.Context, tx pgx.Tx, requestID string) error {
	var state rayslice.State
	if err := tx.QueryRow(ctx, `SELECT state FROM requests WHERE id = $1 FOR SHARE`, requestID).Scan(&state); err != nil {
		return missing(err, "request")
	}
	return runs(state)
}

// runs refuses a state in which there is nothing to verify.
func runs(state rayslice.State) error {
	if state == rayslice.StateReady || state == rayslice.StateAttention || state == rayslice.StateProvisioning {
		return nil
	}
	return &rayslice.Error{Kind: rayslice.KindConflict, Code: "verify_not_running", Args: map[string]any{"state": state}}
}

// endVerification ends the open run of a request whose cluster is going.
func endVerification(ctx context.Context, tx pgx.Tx, requestID string) error {
	why, err := reasonJSON(rayslice.Reason{Code: rayslice.ReasonVerifyGone})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE verifications
		SET
			ended_at = now(),
			reason = $2
		WHERE request_id = $1
			AND ended_at IS NULL`, requestID, why)
	return err
}

// FinishVerification ends a run with what it found out, once: what comes later about the same run changes nothing. reason
// says why it brought no evidence. Admins are told of nodes that should enforce and do not, of each once a day.
func (s *Store) FinishVerification(ctx context.Context, actor rayslice.User, run string, reason rayslice.Reason, certificates []rayslice.Certificate) error {
	if !actor.System {
		return errPortalOnly
	}
	why, err := reasonJSON(reason)
	if err != nil {
		return err
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		var requestID, team, name string
		err := tx.QueryRow(ctx, `
			UPDATE verifications v
			SET
				ended_at = now(),
				reason = $2
			FROM requests r
			WHERE v.run = $1
				AND v.ended_at IS NULL
				AND r.id = v.request_id
			RETURNING
				r.id,
				r.team,
				r.draft ->> 'name'`, run, why).Scan(&requestID, &team, &name)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it has ended
		}
		if err != nil {
			return err
		}
		if err := saveCertificates(ctx, tx, run, requestID, certificates); err != nil {
			return err
		}
		notify(tx, Change{Kind: KindCluster, ID: requestID})
		for _, node := range rayslice.BrokenNodes(certificates) {
			if err := tell(ctx, tx, rayslice.News{Code: rayslice.NewsNotEnforced, Team: team, Node: node,
				Args: map[string]any{"name": name, "nodes": node, "request": requestID}}); err != nil {
				return err
			}
		}
		return nil
	})
}

func saveCertificates(ctx context.Context, tx pgx.Tx, run, requestID string, certificates []rayslice.Certificate) error {
	batch := &pgx.Batch{}
	for _, c := range certificates {
		c.Run, c.RequestID = run, requestID
		text, err := observedJSON(c)
		if err != nil {
			return err
		}
		batch.Queue(`
			INSERT INTO certificates (
				run,
				request_id,
				pod_uid,
				node,
				enforcement,
				at,
				certificate
			)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, run, requestID, c.Target.PodUID, c.Target.Node, c.Judgement.Enforcement, c.At, text)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// AskVerification asks for a run over all workers of a cluster, for its owner, a lead of its team or an admin. While one is
// open it is returned instead. KindConflict when the cluster does not run.
func (s *Store) AskVerification(ctx context.Context, actor rayslice.User, requestID string) (v rayslice.Verification, err error) {
	var r rayslice.Request
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if r, err = lockRequest(ctx, tx, requestID); err != nil {
			return err
		}
		if err := mayVerify(actor, r); err != nil {
			return err
		}
		open, err := openVerification(ctx, tx, requestID)
		if err != nil {
			return err
		}
		if open != nil {
			v = *open
			return nil
		}
		v, err = insertVerification(ctx, tx, actor, r)
		return err
	})
	if err = s.Refuse(ctx, actor, rayslice.AuditEntry{Action: "verify", RequestID: r.ID, Team: r.Team}, missing(err, "request")); err != nil {
		return rayslice.Verification{}, err
	}
	return v, nil
}

func mayVerify(actor rayslice.User, r rayslice.Request) error {
	switch {
	case !actor.CanSee(r.Team):
		return rayslice.NotFound("request")
	case !actor.CanVerify(r):
		return rayslice.Forbidden("verify_not_owner")
	}
	return runs(r.State)
}

func insertVerification(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Request) (rayslice.Verification, error) {
	v := rayslice.Verification{Run: rayslice.NewRequestID(), RequestID: r.ID, By: actor.Name}
	err := tx.QueryRow(ctx, `
		INSERT INTO verifications (
			run,
			request_id,
			asked_by
		)
		VALUES ($1, $2, $3)
		RETURNING asked_at`, v.Run, r.ID, actor.Name).Scan(&v.AskedAt)
	if err != nil {
		return v, err
	}
	v.AskedAt = v.AskedAt.UTC()
	notify(tx, Change{Kind: KindRequest, ID: r.ID})
	return v, audit(ctx, tx, actor, rayslice.AuditEntry{Action: "verify", RequestID: r.ID, Team: r.Team})
}

// Verifications returns the runs about a request the actor may see, latest first, at most 50.
func (s *Store) Verifications(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.Verification, error) {
	rows, _ := s.db.Query(ctx, verificationColumns+`verifications v
		JOIN requests r ON r.id = v.request_id
		WHERE v.request_id = $1
			AND ($2 OR r.team = ANY ($3))
		ORDER BY v.asked_at DESC
		LIMIT 50`, requestID, seesAll(actor), actor.Teams())
	runs, err := pgx.CollectRows(rows, scanVerification)
	return runs, s.noneOr(ctx, actor, requestID, len(runs), err)
}

// Certificates returns the certificates of a request the actor may see, latest first, at most 200. rayslice.Standing says which
// of them count.
func (s *Store) Certificates(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.Certificate, error) {
	rows, _ := s.db.Query(ctx, certificateColumns+`
		JOIN requests r ON r.id = c.request_id
		WHERE c.request_id = $1
			AND ($2 OR r.team = ANY ($3))
		ORDER BY c.id DESC
		LIMIT 200`, requestID, seesAll(actor), actor.Teams())
	found, err := pgx.CollectRows(rows, scanCertificate)
	return found, s.noneOr(ctx, actor, requestID, len(found), err)
}

// noneOr tells a request that has none of what was looked for from one that the actor may not see, which is
// rayslice.NotFound. err is that of the look.
func (s *Store) noneOr(ctx context.Context, actor rayslice.User, requestID string, found int, err error) error {
	if err == nil && found == 0 {
		_, err = s.Request(ctx, actor, requestID)
	}
	return answer(err)
}

// Badge returns what the certificates of a request the actor may see say of what was observed about it.
func (s *Store) Badge(ctx context.Context, actor rayslice.User, cluster rayslice.Cluster) (rayslice.Badge, error) {
	standing, err := s.standing(ctx, actor, cluster.RequestID)
	return rayslice.NewBadge(cluster, standing), err
}

// StandingCertificates returns the certificate of each pod of a request the actor may see, of those that count
// (rayslice.Standing), the latest first.
func (s *Store) StandingCertificates(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.Certificate, error) {
	standing, err := s.standing(ctx, actor, requestID)
	if err != nil || len(standing) == 0 {
		return nil, err
	}
	ids := make([]int64, len(standing))
	for i, c := range standing {
		ids[i] = c.ID
	}
	rows, _ := s.db.Query(ctx, certificateColumns+`
		WHERE c.id = ANY ($1)
		ORDER BY c.id DESC`, ids)
	found, err := pgx.CollectRows(rows, scanCertificate)
	return found, answer(err)
}

// standing is StandingCertificates, filled as far as looked does.
func (s *Store) standing(ctx context.Context, actor rayslice.User, requestID string) ([]rayslice.Certificate, error) {
	rows, _ := s.db.Query(ctx, `
		SELECT
			looks.of_request
		FROM requests r
		LEFT JOIN (`+looks+`) looks ON looks.request_id = r.id
		WHERE r.id = ANY ($1)
			AND ($2 OR r.team = ANY ($3))`, []string{requestID}, seesAll(actor), actor.Teams(), stateNames(rayslice.States()))
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[][]string])
	return rayslice.Standing(looked(found)), missing(err, "request")
}

// nodeDriver joins to certificate c the latest that is known of the driver on its node.
const nodeDriver = `
	LEFT JOIN LATERAL (
		SELECT
			n.certificate ->> 'driver' AS driver
		FROM certificates n
		WHERE n.node = c.node
			AND n.certificate ->> 'driver' <> ''
		ORDER BY n.id DESC
		LIMIT 1
	) latest ON true`

const certificateColumns = `
	SELECT
		c.id,
		c.certificate,
		coalesce(latest.driver, '')
	FROM certificates c` + nodeDriver

func scanCertificate(row pgx.CollectableRow) (c rayslice.Certificate, err error) {
	var id int64
	var driver string
	var text []byte
	if err = row.Scan(&id, &text, &driver); err == nil {
		err = json.Unmarshal(text, &c)
	}
	c.ID, c.NodeDriver = id, driver
	return c, err
}

// looks select of each of the requests $1 in a state of $4 what says which of its certificates count and what for, the latest
// first. The rest of a certificate is some 4 kB, which no list needs.
const looks = `
	SELECT
		c.request_id,
		array_agg(ARRAY[
			c.id::text,
			c.pod_uid,
			c.node,
			c.enforcement,
			CASE WHEN c.enforcement = 'inconclusive' THEN coalesce(c.certificate -> 'judgement' ->> 'in_use', '') ELSE '' END,
			coalesce(c.certificate ->> 'driver', ''),
			coalesce(latest.driver, '')
		] ORDER BY c.id DESC) AS of_request
	FROM certificates c
	JOIN requests asked ON asked.id = c.request_id` + nodeDriver + `
	WHERE c.request_id = ANY ($1)
		AND asked.state = ANY ($4)
	GROUP BY c.request_id`

// looked returns what looks has found of one request; nothing else of the certificates is filled.
func looked(looks [][]string) []rayslice.Certificate {
	certificates := make([]rayslice.Certificate, len(looks))
	for i, l := range looks {
		c := &certificates[i]
		c.ID, _ = strconv.ParseInt(l[0], 10, 64) // Postgres wrote it
		c.Target.PodUID, c.Target.Node = l[1], l[2]
		c.Judgement.Enforcement, c.Judgement.InUse = rayslice.Enforcement(l[3]), l[4] == "true"
		c.Driver, c.NodeDriver = l[5], l[6]
	}
	return certificates
}

// A NodeVerdict is the latest conclusive verdict about workers on one node.
type NodeVerdict struct {
	Node        string
	Enforcement rayslice.Enforcement
	At          time.Time
}

// NodeVerdicts returns the latest conclusive verdict of each node within the last 30 days. Whoever is signed in may know: it
// names no team.
func (s *Store) NodeVerdicts(ctx context.Context, actor rayslice.User) ([]NodeVerdict, error) {
	if !actor.System && actor.ID == 0 {
		return nil, rayslice.NotFound("fleet")
	}
	rows, _ := s.db.Query(ctx, `
		SELECT DISTINCT ON (node)
			node,
			enforcement,
			at
		FROM certificates
		WHERE enforcement <> 'inconclusive'
			AND at > now() - interval '30 days'
		ORDER BY
			node,
			id DESC`)
	verdicts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[NodeVerdict])
	return verdicts, answer(err)
}
