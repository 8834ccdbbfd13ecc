package store

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/rayslice/rayslice"
)

// maxUnread is the most that Unread counts: more is "many" to anybody.
const maxUnread = 100

// NoticeFilter narrows Notices. The zero filter is every notice of the actor.
type NoticeFilter struct {
	Unread bool
	Before int64 // Next of the page before; 0 = from the newest
	Limit  int   // at most MaxPage; 0 = DefaultPage
}

// NoticePage is one page of notices, newest first.
type NoticePage struct {
	Notices []rayslice.Notice
	Next    int64 // for NoticeFilter.Before; 0 = this was the last page
}

const noticeColumns = `
	SELECT
		n.id,
		n.at,
		n.code,
		n.team,
		n.request_id,
		n.args,
		coalesce(n.reason, '{}'),
		n.link,
		n.read_at`

// Notices returns one page of what the actor was told. Nobody sees another's.
func (s *Store) Notices(ctx context.Context, actor rayslice.User, f NoticeFilter) (NoticePage, error) {
	if f.Limit <= 0 {
		f.Limit = DefaultPage
	}
	f.Limit = min(f.Limit, MaxPage)
	rows, _ := s.db.Query(ctx, noticeColumns+`
		FROM notices n
		WHERE n.user_id = $1
			AND (NOT $2 OR n.read_at IS NULL)
			AND ($3::bigint = 0 OR n.id < $3)
		ORDER BY n.id DESC
		LIMIT $4`, actor.ID, f.Unread, f.Before, f.Limit+1)
	found, err := pgx.CollectRows(rows, scanNotice)
	if err != nil {
		return NoticePage{}, answer(err)
	}
	if len(found) <= f.Limit {
		return NoticePage{Notices: found}, nil
	}
	found = found[:f.Limit]
	return NoticePage{Notices: found, Next: found[f.Limit-1].ID}, nil
}

func scanNotice(row pgx.CollectableRow) (n rayslice.Notice, err error) {
	var payload rayslice.Reason // reads whole numbers back as int
	var read pgtype.Timestamptz
	err = row.Scan(&n.ID, &n.At, &n.Code, &n.Team, &n.RequestID, (*argsOnly)(&payload), &n.Reason, &n.Link, &read)
	n.At, n.ReadAt, n.Args = n.At.UTC(), read.Time.UTC(), payload.Args
	return n, err
}

// argsOnly reads the arguments of a sentence as a reason's are read.
type argsOnly rayslice.Reason

// UnmarshalJSON reads an object.
func (a *argsOnly) UnmarshalJSON(raw []byte) error {
	return (*rayslice.Reason)(a).UnmarshalJSON(append(append([]byte(`{"args":`), raw...), '}'))
}

// Unread returns how many notices the actor has not read, up to 100.
func (s *Store) Unread(ctx context.Context, actor rayslice.User) (int, error) {
	var n int
	err := s.db.QueryRow(ctx, `
		SELECT
			count(*)
		FROM (
			SELECT
			FROM notices
			WHERE user_id = $1 AND read_at IS NULL
			LIMIT $2
		) unread`, actor.ID, maxUnread).Scan(&n)
	return n, answer(err)
}

// ReadNotices notes that the actor has read the notices, or all of them up to the newest that they have seen. Ids of
// others' notices, or of none, change nothing.
func (s *Store) ReadNotices(ctx context.Context, actor rayslice.User, ids []int64, upTo int64) error {
	if err := s.inPerson(ctx, actor); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE notices
			SET
				read_at = now()
			WHERE user_id = $1
				AND read_at IS NULL
				AND (id = ANY ($2) OR id <= $3)`, actor.ID, ids, upTo)
		return err
	})
}

// NotificationSettings returns how the actor wants to be told.
func (s *Store) NotificationSettings(ctx context.Context, actor rayslice.User) (rayslice.NotificationSettings, error) {
	settings, err := notificationSettings(ctx, s.db, actor.ID)
	return settings, answer(err)
}

func notificationSettings(ctx context.Context, db DB, userID int64) (rayslice.NotificationSettings, error) {
	settings := rayslice.DefaultNotificationSettings()
	var muted []string
	var failedAt pgtype.Timestamptz
	err := db.QueryRow(ctx, `
		SELECT
			mail,
			webhook_url,
			webhook_form,
			webhook_secret,
			muted,
			coalesce(failure, '{}'),
			failed_at
		FROM notification_settings
		WHERE user_id = $1`, userID).
		Scan(&settings.Mail, &settings.WebhookURL, &settings.WebhookForm, &settings.WebhookSecret, &muted, &settings.Failure, &failedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return settings, nil
	}
	for _, kind := range muted {
		settings.Muted = append(settings.Muted, rayslice.NewsKind(kind))
	}
	settings.FailedAt = failedAt.Time.UTC()
	return settings, err
}

// inPerson refuses a program what is between a person and their portal.
func (s *Store) inPerson(ctx context.Context, actor rayslice.User) error {
	if actor.TokenID == 0 {
		return nil
	}
	return s.refuse(ctx, actor, rayslice.AuditEntry{}, &rayslice.Error{Kind: rayslice.KindForbidden, Code: "not_by_token"})
}

// SetNotificationSettings sets how the actor wants to be told. The settings must be valid; the secret is set as it is
// given, so whoever keeps it passes the old one on. A failure is forgotten. No token may: a webhook is a way out for what the
// person sees, which is why the audit log names the host of each new one.
func (s *Store) SetNotificationSettings(ctx context.Context, actor rayslice.User, settings rayslice.NotificationSettings) error {
	if err := s.inPerson(ctx, actor); err != nil {
		return err
	}
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			SELECT
			FROM users
			WHERE id = $1
			FOR NO KEY UPDATE`, actor.ID); err != nil { // so that two at once each record what they replace
			return err
		}
		before, err := notificationSettings(ctx, tx, actor.ID)
		if err != nil {
			return err
		}
		if err := saveNotificationSettings(ctx, tx, actor.ID, settings); err != nil || settings.WebhookURL == before.WebhookURL {
			return err
		}
		return audit(ctx, tx, actor, rayslice.AuditEntry{Action: "set_webhook", Reason: webhookReason(settings.WebhookURL)})
	})
}

// webhookReason names the host of an address and nothing else: in what follows it often lies the right to write.
func webhookReason(address string) rayslice.Reason {
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return rayslice.Reason{Code: "webhook_removed"}
	}
	return rayslice.Reason{Code: "webhook_set", Args: map[string]any{"host": u.Host}}
}

func saveNotificationSettings(ctx context.Context, tx pgx.Tx, userID int64, settings rayslice.NotificationSettings) error {
	muted := make([]string, 0, len(settings.Muted))
	for _, kind := range settings.Muted {
		muted = append(muted, string(kind))
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO notification_settings (
			user_id,
			mail,
			webhook_url,
			webhook_form,
			webhook_secret,
			muted
		)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (user_id) DO UPDATE
		SET
			mail = excluded.mail,
			webhook_url = excluded.webhook_url,
			webhook_form = excluded.webhook_form,
			webhook_secret = excluded.webhook_secret,
			muted = excluded.muted,
			failure = NULL,
			failed_at = NULL,
			changed_at = now()`,
		userID, settings.Mail, settings.WebhookURL, settings.WebhookForm, settings.WebhookSecret, muted)
	return err
}

// TryNotification sends the actor a message by every way they have chosen.
func (s *Store) TryNotification(ctx context.Context, actor rayslice.User) error {
	if err := s.inPerson(ctx, actor); err != nil {
		return err
	}
	return s.inTxOnce(ctx, func(tx pgx.Tx) error {
		return tell(ctx, tx, rayslice.News{Code: rayslice.NewsTryMessage, At: time.Now().UTC(), For: actor.ID})
	})
}

// SetLanguage sets the language that the actor's messages are written in, a BCP 47 code the portal speaks.
func (s *Store) SetLanguage(ctx context.Context, actor rayslice.User, language string) error {
	if err := s.inPerson(ctx, actor); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `
		UPDATE users
		SET
			language = $2
		WHERE id = $1 AND language <> $2`, actor.ID, language)
	return answer(err)
}
