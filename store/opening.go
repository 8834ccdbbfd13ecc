package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rayslice/rayslice"
)

const (
	codeLives   = time.Minute   // from the portal to the cluster's host
	openLives   = 8 * time.Hour // a dashboard, while its session lives
	maxOpenings = 8             // of one session on one cluster, the latest
	openAction  = "open"
)

// Opening is the way from a session of the portal to the host of one cluster.
type Opening struct {
	ID        int64
	RequestID string
	Session   string // the session's name in Postgres
	Code      []byte // SHA-256 of the one-time code
	Sealed    []byte // the session's secret, under the code or the cookie
}

// OpenCluster lets a session of the actor's go on to the host of a cluster, by a code that works once within a minute, and
// records who opened what. rayslice.NotFound for a request that is not the actor's to see, KindForbidden for a token, which
// needs no code.
func (s *Store) OpenCluster(ctx context.Context, actor rayslice.User, o Opening) (rayslice.Access, error) {
	if actor.TokenID != 0 {
		return rayslice.AccessNone, s.forbid(ctx, actor, rayslice.AuditEntry{Action: openAction, RequestID: o.RequestID}, "not_by_token")
	}
	var access rayslice.Access
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if access, err = open(ctx, tx, actor, o.RequestID); err != nil {
			return err
		}
		if err := forgetOpenings(ctx, tx, o); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO openings (
				request_id,
				user_id,
				session,
				code,
				sealed,
				ends_at
			)
			VALUES ($1, $2, $3, $4, $5, now() + $6::interval)
			ON CONFLICT (code) DO NOTHING`, o.RequestID, actor.ID, o.Session, o.Code, o.Sealed, codeLives)
		if sqlState(err) == codeForeignKey {
			return rayslice.NotFound("session") // it has ended just now
		}
		return err
	})
	return access, err
}

// EnterCluster records that an API token of the actor's is used on the host of a cluster, and returns what it may do there.
// rayslice.NotFound for a request that is not the actor's to see.
func (s *Store) EnterCluster(ctx context.Context, actor rayslice.User, requestID string) (access rayslice.Access, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		access, err = open(ctx, tx, actor, requestID)
		return err
	})
	return access, err
}

// open decides what the actor may do with a cluster and records that they open it.
func open(ctx context.Context, tx pgx.Tx, actor rayslice.User, requestID string) (rayslice.Access, error) {
	r := rayslice.Request{ID: requestID}
	err := tx.QueryRow(ctx, `
		SELECT
			team,
			owner_id
		FROM requests
		WHERE id = $1`, requestID).Scan(&r.Team, &r.Owner.ID)
	if err != nil {
		return rayslice.AccessNone, missing(err, "request")
	}
	access := actor.Access(r)
	if access == rayslice.AccessNone {
		return access, rayslice.NotFound("request")
	}
	reason := rayslice.Reason{Code: "opened_view"}
	if access == rayslice.AccessFull {
		reason = rayslice.Reason{Code: "opened_full"}
	}
	return access, audit(ctx, tx, actor, rayslice.AuditEntry{Action: openAction, RequestID: requestID, Team: r.Team, Reason: reason})
}

// forgetOpenings removes those that are over, and of the session's on the same cluster all but the latest.
func forgetOpenings(ctx context.Context, tx pgx.Tx, o Opening) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM openings
		WHERE id IN (
			SELECT
				id
			FROM openings
			WHERE ends_at <= now()
				OR id IN (
					SELECT
						id
					FROM openings
					WHERE session = $1 AND request_id = $2
					ORDER BY id DESC
					OFFSET $3
				)
			LIMIT $4
			FOR UPDATE SKIP LOCKED
		)`, o.Session, o.RequestID, maxOpenings-1, sweepBatch)
	return err
}

// TakeOpening uses up a one-time code of the request's host. rayslice.NotFound when it is unknown, another request's, used or
// over. KeepOpening goes on with what it returns.
func (s *Store) TakeOpening(ctx context.Context, actor rayslice.User, requestID string, code []byte) (Opening, error) {
	if !actor.System {
		return Opening{}, errPortalOnly
	}
	o := Opening{RequestID: requestID}
	err := s.db.QueryRow(ctx, `
		UPDATE openings
		SET
			code = NULL
		WHERE code = $1
			AND request_id = $2
			AND ends_at > now()
		RETURNING
			id,
			session,
			sealed`, code, requestID).Scan(&o.ID, &o.Session, &o.Sealed)
	return o, missing(err, "code")
}

// KeepOpening puts a cookie, by its SHA-256, in the place of a code that was taken. It lives as long as the session and for
// 8 hours at most; rayslice.NotFound when the session has ended.
func (s *Store) KeepOpening(ctx context.Context, actor rayslice.User, id int64, cookie, sealed []byte) error {
	if !actor.System {
		return errPortalOnly
	}
	tag, err := s.db.Exec(ctx, `
		UPDATE openings
		SET
			cookie = $2,
			sealed = $3,
			ends_at = now() + $4::interval
		WHERE id = $1
			AND code IS NULL
			AND cookie IS NULL`, id, cookie, sealed, openLives)
	if err == nil && tag.RowsAffected() == 0 {
		return rayslice.NotFound("session")
	}
	return answer(err)
}

// Opening returns what a cookie of the request's host stands for. rayslice.NotFound when it is unknown, another request's or
// over.
func (s *Store) Opening(ctx context.Context, actor rayslice.User, requestID string, cookie []byte) (Opening, error) {
	if !actor.System {
		return Opening{}, errPortalOnly
	}
	o := Opening{RequestID: requestID}
	err := s.db.QueryRow(ctx, `
		SELECT
			id,
			session,
			sealed
		FROM openings
		WHERE cookie = $1
			AND request_id = $2
			AND ends_at > now()`, cookie, requestID).Scan(&o.ID, &o.Session, &o.Sealed)
	return o, missing(err, "session")
}
