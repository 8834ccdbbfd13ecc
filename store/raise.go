package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// RaiseFilter narrows Raises. The zero filter is every raise the actor may see.
type RaiseFilter struct {
	Team  string              // "" = every team
	State rayslice.RaiseState // "" = every state
	After int64               // Next of the page before; 0 = from the newest
	Limit int                 // at most MaxPage; 0 = DefaultPage
}

// RaisePage is one page of raises, newest first.
type RaisePage struct {
	Raises []rayslice.Raise
	Next   int64 // for RaiseFilter.After; 0 = this was the last page
}

const raiseColumns = `
	SELECT
		r.id,
		r.team,
		r.asked_by,
		u.name,
		u.email,
		r.gib,
		r.cards,
		r.until_at,
		r.purpose,
		r.state,
		r.asked_at,
		r.decided_at,
		r.decided_by,
		r.answer,
		g.id,
		g.gib,
		g.cards,
		g.since,
		g.until_at,
		g.ended_at
	FROM raises r
	JOIN users u ON u.id = r.asked_by
	LEFT JOIN grants g ON g.id = r.grant_id`

func scanRaise(row pgx.CollectableRow) (r rayslice.Raise, err error) {
	var until, decided, since, grantUntil, ended pgtype.Timestamptz
	var grant, gib, cards pgtype.Int8
	err = row.Scan(&r.ID, &r.Team, &r.By.ID, &r.By.Name, &r.By.Email, &r.Charge.GiB, &r.Charge.Cards, &until, &r.Purpose, &r.State,
		&r.AskedAt, &decided, &r.DecidedBy, &r.Answer, &grant, &gib, &cards, &since, &grantUntil, &ended)
	r.AskedAt, r.Until, r.DecidedAt = r.AskedAt.UTC(), until.Time.UTC(), decided.Time.UTC()
	if grant.Valid {
		r.Grant = &rayslice.Grant{
			ID: grant.Int64, Team: r.Team, Charge: rayslice.Charge{GiB: int(gib.Int64), Cards: int(cards.Int64)},
			Since: since.Time.UTC(), Until: grantUntil.Time.UTC(), Ended: ended.Time.UTC(), By: r.DecidedBy, Note: r.Purpose,
		}
	}
	return r, err
}

// Raises returns one page of the raises of the actor's teams, of every team for an admin, newest first.
func (s *Store) Raises(ctx context.Context, actor rayslice.User, f RaiseFilter) (RaisePage, error) {
	if f.Team != "" && !actor.CanSee(f.Team) {
		return RaisePage{}, rayslice.NotFound("team")
	}
	limit := pageLength(f.Limit)
	rows, _ := s.db.Query(ctx, raiseColumns+`
		WHERE ($1 OR r.team = ANY ($2))
			AND ($3 = '' OR r.team = $3)
			AND ($4 = '' OR r.state = $4)
			AND ($5::bigint = 0 OR r.id < $5)
		ORDER BY r.id DESC
		LIMIT $6`, seesAll(actor), actor.Teams(), f.Team, string(f.State), f.After, limit+1)
	raises, err := pgx.CollectRows(rows, scanRaise)
	if err != nil || len(raises) <= limit {
		return RaisePage{Raises: raises}, answer(err)
	}
	return RaisePage{Raises: raises[:limit], Next: raises[limit-1].ID}, nil
}

// PendingRaises returns how many raises wait for an admin; 0 for everybody else.
func (s *Store) PendingRaises(ctx context.Context, actor rayslice.User) (n int, err error) {
	if !actor.CanAdmin() {
		return 0, nil
	}
	err = s.db.QueryRow(ctx, `
		SELECT
			count(*)
		FROM raises
		WHERE state = 'pending'`).Scan(&n)
	return n, answer(err)
}

// Raise returns one raise of a team the actor may see.
func (s *Store) Raise(ctx context.Context, actor rayslice.User, id int64) (rayslice.Raise, error) {
	rows, _ := s.db.Query(ctx, raiseColumns+`
		WHERE r.id = $1`, id)
	r, err := pgx.CollectExactlyOneRow(rows, scanRaise)
	err = missing(err, "raise")
	if err == nil && !actor.CanSee(r.Team) {
		err = rayslice.NotFound("raise")
	}
	if err != nil {
		return rayslice.Raise{}, err
	}
	return r, nil
}

// AskRaise asks the admins for more quota. The draft must be valid. The same wish of the same person, while that waits, is
// one: a form that is sent twice asks once. KindForbidden unless the actor leads the team.
func (s *Store) AskRaise(ctx context.Context, actor rayslice.User, draft rayslice.RaiseDraft) (rayslice.Raise, error) {
	if !actor.CanSee(draft.Team) {
		return rayslice.Raise{}, rayslice.NotFound("team")
	}
	if !actor.CanLead(draft.Team) {
		return rayslice.Raise{}, s.forbid(ctx, actor, rayslice.AuditEntry{Action: "ask_raise", Team: draft.Team}, "raise_not_lead")
	}
	var id int64
	err := s.inTxOnce(ctx, func(tx pgx.Tx) error {
		var fresh bool
		var err error
		if id, fresh, err = insertRaise(ctx, tx, actor, draft); err != nil || !fresh {
			return err
		}
		news := rayslice.News{Code: rayslice.NewsRaiseAsked, Team: draft.Team, By: actor.ID,
			Args: map[string]any{"who": actor.Name, "gib": draft.Charge.GiB, "cards": draft.Charge.Cards, "purpose": draft.Purpose}}
		if err := tell(ctx, tx, news); err != nil {
			return err
		}
		reason := raiseReason(rayslice.ReasonRaiseAsked, draft.Charge, draft.Until, "purpose", draft.Purpose)
		return changedTeam(ctx, tx, actor, rayslice.AuditEntry{Action: "ask_raise", Team: draft.Team, Reason: reason})
	})
	if err != nil {
		return rayslice.Raise{}, err
	}
	return s.Raise(ctx, actor, id)
}

// insertRaise writes the wish, unless the same one waits already: then it returns that one's id. It holds the quota row, so
// that two of the same cannot both be the first.
func insertRaise(ctx context.Context, tx pgx.Tx, actor rayslice.User, draft rayslice.RaiseDraft) (id int64, fresh bool, err error) {
	tag, err := tx.Exec(ctx, `
		SELECT
		FROM quotas
		WHERE team = $1
		FOR UPDATE`, draft.Team)
	if err == nil && tag.RowsAffected() == 0 {
		err = rayslice.NotFound("team")
	}
	if err != nil {
		return 0, false, err
	}
	until := pgtype.Timestamptz{Time: draft.Until, Valid: !draft.Until.IsZero()}
	err = tx.QueryRow(ctx, `
		WITH same AS (
			SELECT id
			FROM raises
			WHERE state = 'pending'
				AND team = $1
				AND asked_by = $2
				AND gib = $3
				AND cards = $4
				AND until_at IS NOT DISTINCT FROM $5
				AND purpose = $6
		), made AS (
			INSERT INTO raises (
				team,
				asked_by,
				gib,
				cards,
				until_at,
				purpose
			)
			SELECT $1, $2, $3, $4, $5, $6
			WHERE NOT EXISTS (SELECT FROM same)
			RETURNING id
		)
		SELECT id, true FROM made
		UNION ALL
		SELECT id, false FROM same
		LIMIT 1`, draft.Team, actor.ID, draft.Charge.GiB, draft.Charge.Cards, until, draft.Purpose).Scan(&id, &fresh)
	return id, fresh, err
}

// raiseReason says how much and until when; what people said goes under the given name.
func raiseReason(code string, c rayslice.Charge, until time.Time, name, said string) rayslice.Reason {
	r := rayslice.Reason{Code: code, Args: map[string]any{"gib": c.GiB, "cards": c.Cards}}
	if !until.IsZero() {
		r.Args["until"] = until.UTC().Format("2006-01-02 15:04")
	}
	if said != "" {
		r.Args[name] = said
	}
	return r
}

// WithdrawRaise takes back a raise that waits. KindForbidden unless the actor leads its team, KindConflict when it has been
// decided (code "raise_decided", with who).
func (s *Store) WithdrawRaise(ctx context.Context, actor rayslice.User, id int64) error {
	var r rayslice.Raise
	err := s.inTxOnce(ctx, func(tx pgx.Tx) error {
		var err error
		if r, err = lockRaise(ctx, tx, actor, id); err != nil {
			return err
		}
		if !actor.CanLead(r.Team) {
			return rayslice.Forbidden("raise_not_lead")
		}
		return closeRaise(ctx, tx, actor, r, rayslice.RaiseWithdrawn, rayslice.RaiseDecision{}, 0)
	})
	return s.Refuse(ctx, actor, rayslice.AuditEntry{Action: "withdraw_raise", Subject: r.By.Name, Team: r.Team}, err)
}

// DecideRaise grants a raise, all of it or less, or denies it. What is granted ends by itself. KindInvalid for more than
// what was asked for; KindForbidden unless the actor is an admin and has not asked for it themselves; KindConflict when it
// has been decided or withdrawn (code "raise_decided", with who).
func (s *Store) DecideRaise(ctx context.Context, actor rayslice.User, id int64, d rayslice.RaiseDecision) (rayslice.Raise, error) {
	var r rayslice.Raise
	err := s.inTxOnce(ctx, func(tx pgx.Tx) error {
		var err error
		if r, err = lockRaise(ctx, tx, actor, id); err != nil {
			return err
		}
		return decideRaise(ctx, tx, actor, r, d)
	})
	tried := rayslice.AuditEntry{Action: "deny_raise", Subject: r.By.Name, Team: r.Team}
	if d.Grant {
		tried.Action = "grant_raise"
	}
	if err = s.Refuse(ctx, actor, tried, err); err != nil {
		return rayslice.Raise{}, err
	}
	return s.Raise(ctx, actor, id)
}

func decideRaise(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Raise, d rayslice.RaiseDecision) error {
	if err := actor.MayDecideRaise(r); err != nil {
		return err
	}
	if err := stillWaits(r); err != nil {
		return err
	}
	var now time.Time
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return err
	}
	if err := d.Validate(r, now); err != nil {
		return err
	}
	if !d.Grant {
		return closeRaise(ctx, tx, actor, r, rayslice.RaiseDenied, d, 0)
	}
	grant, err := addGrant(ctx, tx, rayslice.Grant{Team: r.Team, Charge: d.Charge, Until: d.Until, By: actor.Name, Note: r.Purpose})
	if err != nil {
		return err
	}
	return closeRaise(ctx, tx, actor, r, rayslice.RaiseGranted, d, grant)
}

func stillWaits(r rayslice.Raise) error {
	if r.State == rayslice.RaisePending {
		return nil
	}
	return &rayslice.Error{Kind: rayslice.KindConflict, Code: "raise_decided", Args: map[string]any{"state": r.State, "who": r.DecidedBy}}
}

// lockRaise reads one raise of a team the actor may see and holds its row.
func lockRaise(ctx context.Context, tx pgx.Tx, actor rayslice.User, id int64) (rayslice.Raise, error) {
	rows, _ := tx.Query(ctx, raiseColumns+`
		WHERE r.id = $1
		FOR UPDATE OF r`, id)
	r, err := pgx.CollectExactlyOneRow(rows, scanRaise)
	if err == nil && !actor.CanSee(r.Team) {
		return rayslice.Raise{}, rayslice.NotFound("raise")
	}
	return r, missing(err, "raise")
}

// closeRaise ends a raise that waits, with its audit entry.
func closeRaise(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Raise, to rayslice.RaiseState, d rayslice.RaiseDecision, grant int64) error {
	if err := stillWaits(r); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE raises
		SET
			state = $2,
			decided_at = now(),
			decided_by = $3,
			answer = $4,
			grant_id = nullif($5::bigint, 0)
		WHERE id = $1`, r.ID, string(to), actor.Name, d.Answer, grant)
	if err != nil {
		return err
	}
	entry := rayslice.AuditEntry{Team: r.Team, Subject: r.By.Name}
	switch to {
	case rayslice.RaiseGranted:
		entry.Action, entry.Reason = "grant_raise", raiseReason(rayslice.ReasonRaiseGranted, d.Charge, d.Until, "answer", d.Answer)
	case rayslice.RaiseDenied:
		entry.Action, entry.Reason = "deny_raise", raiseReason(rayslice.ReasonRaiseDenied, r.Charge, r.Until, "answer", d.Answer)
	default:
		entry.Action, entry.Reason = "withdraw_raise", raiseReason(rayslice.ReasonRaiseWithdrawn, r.Charge, r.Until, "", "")
	}
	if err := tellRaise(ctx, tx, actor, r, to, d); err != nil {
		return err
	}
	return changedTeam(ctx, tx, actor, entry)
}

// tellRaise tells the team's leads what became of a raise; whoever withdrew it knows.
func tellRaise(ctx context.Context, tx pgx.Tx, actor rayslice.User, r rayslice.Raise, to rayslice.RaiseState, d rayslice.RaiseDecision) error {
	code, amount := rayslice.NewsRaiseDenied, r.Charge
	switch to {
	case rayslice.RaiseGranted:
		code, amount = rayslice.NewsRaiseGranted, d.Charge
	case rayslice.RaiseWithdrawn:
		return nil
	}
	return tell(ctx, tx, rayslice.News{Code: code, Team: r.Team, By: actor.ID,
		Args: map[string]any{"who": actor.Name, "gib": amount.GiB, "cards": amount.Cards, "answer": d.Answer}})
}
