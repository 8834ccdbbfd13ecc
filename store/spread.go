package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"

	"github.com/rayslice/rayslice"
)

// Spread writes a notice to everybody the news is for, and a job for each mail and webhook, in one transaction. newsID
// names the news: what was spread before, by whichever replica, is not spread again. It returns how many were told.
func (s *Store) Spread(ctx context.Context, actor rayslice.User, newsID int64, n rayslice.News) (int, error) {
	if !actor.System {
		return 0, errPortalOnly
	}
	var told int
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		recipients, err := s.audience(ctx, tx, n)
		if err != nil {
			return err
		}
		told, err = s.writeNotices(ctx, tx, newsID, n, recipients)
		return err
	})
	return told, err
}

// audience returns the ids of those the news is for now, lowest first. Where nobody leads the team but who caused the
// news, the admins stand in, so that no request waits unseen.
func (s *Store) audience(ctx context.Context, tx pgx.Tx, n rayslice.News) ([]int64, error) {
	if n.For != 0 {
		return []int64{n.For}, nil
	}
	var leads []int64
	var err error
	if n.Code.Audience() == rayslice.AudienceLeads {
		leads, err = s.holders(ctx, tx, rayslice.RoleLead, n.Team, n.By)
	}
	if err != nil || len(leads) > 0 || n.Code.Audience() == rayslice.AudiencePerson {
		return leads, err
	}
	return s.holders(ctx, tx, rayslice.RoleAdmin, "", n.By)
}

// holders returns who has a role now and can sign in, but for one.
func (s *Store) holders(ctx context.Context, tx pgx.Tx, role rayslice.Role, team string, except int64) ([]int64, error) {
	rows, _ := tx.Query(ctx, `
		SELECT DISTINCT
			r.user_id
		FROM held_roles r
		JOIN users u ON u.id = r.user_id
		WHERE r.role = $1
			AND coalesce(r.team, '') = $2
			AND `+s.canSignIn()+`
			AND u.id <> $3
		ORDER BY r.user_id`, role, team, except)
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// writeNotices writes the notices that are missing, and their jobs.
func (s *Store) writeNotices(ctx context.Context, tx pgx.Tx, newsID int64, n rayslice.News, recipients []int64) (int, error) {
	notices, err := s.insertNotices(ctx, tx, newsID, n, recipients)
	if err != nil {
		return 0, err
	}
	for _, notice := range notices {
		settings, err := notificationSettings(ctx, tx, notice.UserID)
		if err != nil {
			return 0, err
		}
		if err := send(ctx, tx, notice, n.Code, settings); err != nil {
			return 0, err
		}
	}
	return len(notices), nil
}

// writtenNotice is a notice that was not there before.
type writtenNotice struct{ ID, UserID int64 }

func (s *Store) insertNotices(ctx context.Context, tx pgx.Tx, newsID int64, n rayslice.News, recipients []int64) ([]writtenNotice, error) {
	reason, err := reasonJSON(n.Reason)
	if err != nil {
		return nil, err
	}
	if n.Args == nil {
		n.Args = map[string]any{}
	}
	rows, _ := tx.Query(ctx, `
		INSERT INTO notices (
			user_id,
			news_id,
			at,
			code,
			team,
			request_id,
			args,
			reason,
			link
		)
		SELECT
			u.id,
			$2,
			$3,
			$4,
			$5,
			$6,
			$7,
			$8,
			$9
		FROM users u
		WHERE u.id = ANY ($1) AND `+s.canSignIn()+`
		ORDER BY u.id
		ON CONFLICT (news_id, user_id) DO NOTHING
		RETURNING
			id,
			user_id`, recipients, newsID, n.At, n.Code, n.Team, n.RequestID, n.Args, reason, n.Link())
	return pgx.CollectRows(rows, pgx.RowToStructByPos[writtenNotice])
}

// send puts the mail and the webhook of a notice into the outbox, as far as its person wants them.
func send(ctx context.Context, tx pgx.Tx, notice writtenNotice, code rayslice.NewsKind, settings rayslice.NotificationSettings) error {
	if settings.Mutes(code) {
		return nil
	}
	if settings.Mail {
		if _, err := outbox.InsertTx(ctx, tx, rayslice.Mailing{NoticeID: notice.ID}, &river.InsertOpts{Queue: QueueMail, MaxAttempts: triesMail}); err != nil {
			return err
		}
	}
	if settings.WebhookURL == "" {
		return nil
	}
	_, err := outbox.InsertTx(ctx, tx, rayslice.Posting{NoticeID: notice.ID, UserID: notice.UserID}, &river.InsertOpts{Queue: QueueWebhook, MaxAttempts: triesWebhook})
	return err
}

// Letter returns one notice and how its person wants to be told now. One that has been cleaned away is rayslice.NotFound.
func (s *Store) Letter(ctx context.Context, actor rayslice.User, noticeID int64) (rayslice.Letter, error) {
	if !actor.System {
		return rayslice.Letter{}, errPortalOnly
	}
	rows, _ := s.db.Query(ctx, noticeColumns+`,
			u.id,
			u.name,
			u.email,
			u.disabled,
			u.language,
			n.mailed_at IS NOT NULL,
			n.posted_at IS NOT NULL
		FROM notices n
		JOIN users u ON u.id = n.user_id
		WHERE n.id = $1`, noticeID)
	letter, err := pgx.CollectExactlyOneRow(rows, scanLetter)
	if err != nil {
		return rayslice.Letter{}, missing(err, "notice")
	}
	letter.Settings, err = notificationSettings(ctx, s.db, letter.User.ID)
	return letter, answer(err)
}

func scanLetter(row pgx.CollectableRow) (l rayslice.Letter, err error) {
	n, u := &l.Notice, &l.User
	var payload rayslice.Reason
	var read pgtype.Timestamptz
	err = row.Scan(&n.ID, &n.At, &n.Code, &n.Team, &n.RequestID, (*argsOnly)(&payload), &n.Reason, &n.Link, &read,
		&u.ID, &u.Name, &u.Email, &u.Disabled, &l.Language, &l.Mailed, &l.Posted)
	n.At, n.ReadAt, n.Args = n.At.UTC(), read.Time.UTC(), payload.Args
	return l, err
}

// Mailed notes that a notice has been mailed, so that a job which runs twice does not mail it again.
func (s *Store) Mailed(ctx context.Context, actor rayslice.User, noticeID int64) error {
	return s.sent(ctx, actor, `
		UPDATE notices
		SET
			mailed_at = now()
		WHERE id = $1`, noticeID)
}

// Posted notes that the receiver of a webhook took a notice.
func (s *Store) Posted(ctx context.Context, actor rayslice.User, noticeID int64) error {
	return s.sent(ctx, actor, `
		WITH posted AS (
			UPDATE notices
			SET
				posted_at = now()
			WHERE id = $1
			RETURNING user_id
		)
		UPDATE notification_settings
		SET
			failure = NULL,
			failed_at = NULL
		WHERE user_id IN (SELECT user_id FROM posted) AND failure IS NOT NULL`, noticeID)
}

// NotPosted notes why the receiver of a webhook did not take a notice, for its person to see.
func (s *Store) NotPosted(ctx context.Context, actor rayslice.User, noticeID int64, why rayslice.Reason) error {
	return s.sent(ctx, actor, `
		UPDATE notification_settings
		SET
			failure = $2,
			failed_at = now()
		WHERE user_id = (SELECT user_id FROM notices WHERE id = $1)`, noticeID, why)
}

func (s *Store) sent(ctx context.Context, actor rayslice.User, sql string, args ...any) error {
	if !actor.System {
		return errPortalOnly
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// Times before an end at which people are told of it, once. What lives shorter than twice as long is not told of at all.
const (
	tellEndBefore      = time.Hour
	tellTokenEndBefore = 3 * 24 * time.Hour
)

// TellEndings tells owners of clusters and API tokens that these end soon, each once, and returns how many it told of.
func (s *Store) TellEndings(ctx context.Context, actor rayslice.User) (int, error) {
	if !actor.System {
		return 0, errPortalOnly
	}
	var told int
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		ending, err := endingRequests(ctx, tx)
		if err != nil {
			return err
		}
		tokens, err := endingTokens(ctx, tx)
		if err != nil {
			return err
		}
		told = len(ending) + len(tokens)
		for _, n := range append(ending, tokens...) {
			if err := tell(ctx, tx, n); err != nil {
				return err
			}
		}
		return nil
	})
	return told, err
}

func endingRequests(ctx context.Context, tx pgx.Tx) ([]rayslice.News, error) {
	rows, _ := tx.Query(ctx, `
		UPDATE requests
		SET
			told_ending_at = now()
		WHERE state IN ('approved', 'provisioning', 'ready', 'attention')
			AND told_ending_at IS NULL
			AND ends_at > now()
			AND ends_at <= now() + $1
			AND ends_at - decided_at >= 2 * $1::interval
		RETURNING
			id,
			team,
			owner_id,
			name,
			ends_at`, tellEndBefore)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (rayslice.News, error) {
		n := rayslice.News{Code: rayslice.NewsEnding}
		err := scanEnding(row, &n, &n.RequestID, &n.Team)
		return n, err
	})
}

func endingTokens(ctx context.Context, tx pgx.Tx) ([]rayslice.News, error) {
	rows, _ := tx.Query(ctx, `
		UPDATE tokens
		SET
			told_ending_at = now()
		WHERE revoked_at IS NULL
			AND told_ending_at IS NULL
			AND ends_at > now()
			AND ends_at <= now() + $1
			AND ends_at - created_at >= 2 * $1::interval
		RETURNING
			user_id,
			name,
			ends_at`, tellTokenEndBefore)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (rayslice.News, error) {
		n := rayslice.News{Code: rayslice.NewsTokenEnds}
		err := scanEnding(row, &n)
		return n, err
	})
}

// scanEnding reads what comes first, and then whose it is, what it is called and when it ends.
func scanEnding(row pgx.CollectableRow, n *rayslice.News, first ...any) error {
	var name string
	var ends time.Time
	err := row.Scan(append(first, &n.For, &name, &ends)...)
	n.Args = map[string]any{"name": name, "ends": ends.UTC().Format(time.RFC3339)}
	return err
}

// TellIdle tells owners of clusters that have been idle for rayslice.IdleWarn, and of those that go on so again when they have
// been for rayslice.IdleLook since, and returns how many it told of. Nothing known is not idleness.
func (s *Store) TellIdle(ctx context.Context, actor rayslice.User) (int, error) {
	if !actor.System {
		return 0, errPortalOnly
	}
	var told int
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		told = 0
		idle, err := idleHolders(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, h := range idle {
			if time.Since(h.Since) < rayslice.IdleWarn {
				continue
			}
			fresh, err := tellIdle(ctx, tx, h)
			if err != nil {
				return err
			}
			if fresh {
				told++
			}
		}
		return nil
	})
	return told, err
}

// tellIdle tells a cluster's owner that it idles, and reports whether it did.
func tellIdle(ctx context.Context, tx pgx.Tx, h rayslice.IdleHolder) (bool, error) {
	n := rayslice.News{Code: rayslice.NewsIdle, RequestID: h.RequestID, Args: map[string]any{"name": h.Name},
		Reason: rayslice.Reason{Code: rayslice.ReasonIdle, Args: map[string]any{"hours": int(time.Since(h.Since).Hours())}}}
	err := tx.QueryRow(ctx, `
		UPDATE requests
		SET
			told_idle_at = now()
		WHERE id = $1
			AND state = 'ready'
			AND (told_idle_at IS NULL OR told_idle_at < $2)
		RETURNING
			team,
			owner_id`, h.RequestID, h.Since).Scan(&n.Team, &n.For)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // told, or it stops
	}
	if err != nil {
		return false, err
	}
	return true, tell(ctx, tx, n)
}

// CleanNotices forgets what was told before the given time, and returns how much that was.
func (s *Store) CleanNotices(ctx context.Context, actor rayslice.User, before time.Time) (int, error) {
	if !actor.System {
		return 0, errPortalOnly
	}
	tag, err := s.db.Exec(ctx, `
		DELETE FROM notices
		WHERE at < $1`, before)
	return int(tag.RowsAffected()), answer(err)
}
