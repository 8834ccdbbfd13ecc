package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/notify"
	"github.com/rayslice/rayslice/web"
)

// outboxConnections are for the notifier: one listens all the time, the others work.
const outboxConnections = 6

func (p *portal) openNotifier(ctx context.Context, registry *prometheus.Registry) error {
	allow, err := notify.ParseAllow(p.config.WebhookAllow)
	if err != nil {
		return err
	}
	if p.outbox, err = p.openPool(ctx, outboxConnections); err != nil {
		return err
	}
	p.notifier, err = notify.New(notify.Config{
		Pool: p.outbox, Store: p.store, Text: noticeText, BaseURL: p.config.BaseURL(), Logger: p.logger, Registerer: registry,
		Webhook: notify.Webhook{Allow: allow},
		Sweep: func(ctx context.Context) error {
			_, err := p.store.Sweep(ctx, rayslice.System)
			return err
		},
		Mail: notify.Mail{Addr: p.config.SMTPAddr, User: p.config.SMTPUser, Password: p.config.SMTPPassword, From: p.config.SMTPFrom,
			TLS: p.config.SMTPTLS},
	})
	return err
}

// noticeText says a notice as the pages say it; without a chosen language in English.
func noticeText(language string, n rayslice.Notice) notify.Text {
	l := web.NewLocalizer(language)
	return notify.Text{Title: l.NoticeTitle(n), Body: l.NoticeBody(n), Open: l.NoticeOpen(), Why: l.NoticeWhy()}
}
