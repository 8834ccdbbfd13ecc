package k8s

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rayslice/rayslice"
)

// A usageSource finds out what the pods of a cluster use.
type usageSource interface {
	// kind names the source in samples.
	kind() rayslice.UseSource
	// read returns what the subject's workers use, as known not longer ago than maxAge. A source that has no answer says so
	// by a *useError. It may be called by several goroutines.
	read(ctx context.Context, of subject, maxAge time.Duration) (finding, error)
}

// A useError is why a source gave no answer that can be used, in words for people and for the log.
type useError struct {
	Reason rayslice.Reason
	Err    error
}

// Error returns the text for the log.
func (e *useError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *useError) Unwrap() error { return e.Err }

func unreadable(err error) error {
	return &useError{Reason: rayslice.Reason{Code: ReasonUseAnswerUnreadable}, Err: err}
}

// Running is what runs of one cluster.
type Running struct {
	Known   bool              // the caches have been read; nothing else means anything before
	Head    *rayslice.Worker  // nil = none that could be asked
	Workers []rayslice.Worker // that run and hold a share of a card
	CardMiB map[string]int    // physical size of one card by node, where the node says it
}

// Running returns what the caches hold about the pods of a cluster.
func (c *Controller) Running(of rayslice.UseTarget) Running {
	r := Running{Known: c.caches.synced() && c.caches.nodes.HasSynced(), CardMiB: map[string]int{}}
	seen := c.caches.see(rayslice.Request{ID: of.RequestID, Namespace: of.Namespace})
	head, workers := observePods(seen)
	if askable(rayslice.Cluster{Head: head}) {
		r.Head = head
	}
	for _, w := range workers {
		if w.Phase != rayslice.PodRunning || w.Slice.IsZero() {
			continue
		}
		r.Workers = append(r.Workers, w)
		if node := c.node(w.Node); node != nil {
			r.CardMiB[w.Node] = cardMiB(node)
		}
	}
	return r
}

// A subject is a cluster whose use is asked for.
type subject struct {
	rayslice.UseTarget
	Running
	catalogue rayslice.Catalogue
}

// head returns where the head is.
func (s subject) head() HeadAddress {
	return HeadAddress{Namespace: s.Namespace, Pod: s.Head.Name, IP: s.Head.IP}
}

// A finding is what a source has found out about one subject.
type finding struct {
	at      time.Time // when the newest of it was read
	samples []rayslice.Sample
	dropped int // figures that cannot be
}

// A gauged is what a source says about one card of one worker. Grades that it leaves out follow from the slice.
type gauged struct {
	rayslice.Figures
	gpu         string
	at          time.Time
	memoryGrade rayslice.Grade
	grade       rayslice.Grade
}

// add makes samples of what a source says about the cards of one worker. A worker about which nothing is said has a sample
// without figures: that is unknown, and not zero (Project-HAMi/HAMi#931).
func (f *finding) add(s subject, source rayslice.UseSource, w rayslice.Worker, cards []gauged, now time.Time) {
	pool, _ := s.catalogue.Pool(w.Slice.Pool)
	physical := cmp.Or(s.CardMiB[w.Node], pool.CardMiB)
	if len(cards) < max(1, w.Slice.Cards) {
		cards = []gauged{together(cards, now)}
	}
	for _, card := range cards {
		used, limit, percent, dropped := card.Plausible()
		f.dropped += dropped
		f.samples = append(f.samples, rayslice.Sample{
			RequestID: s.RequestID, PodUID: w.UID, Pod: w.Name, GPU: card.gpu, At: card.at, Source: source,
			UsedMiB: used, LimitMiB: limit, Percent: percent,
			MemoryGrade: gradeOf(w.Slice, card.memoryGrade, rayslice.MemoryGrade(w.Slice, pool, physical, limit)),
			Grade:       gradeOf(w.Slice, card.grade, rayslice.UtilisationGrade(w.Slice)),
		})
	}
}

// gradeOf prefers what the source knows, but for the card of a worker that has all of it: that is its own.
func gradeOf(slice rayslice.Slice, said, otherwise rayslice.Grade) rayslice.Grade {
	if said == "" || slice.Whole() && said == rayslice.GradeCard {
		return otherwise
	}
	return said
}

// together is all that is said about a worker of more cards than are named: what it uses is known, how it is spread over its
// cards is not, nor how much it may use (Project-HAMi/HAMi#1218).
func together(cards []gauged, now time.Time) gauged {
	all := gauged{at: now}
	for _, card := range cards {
		if card.UsedMiB != nil {
			sum := *card.UsedMiB
			if all.UsedMiB != nil {
				sum += *all.UsedMiB
			}
			all.UsedMiB = &sum
		}
		all.at, all.memoryGrade = card.at, card.memoryGrade
	}
	return all
}

// sorted puts samples in the order of Use.
func (f *finding) sorted() []rayslice.Sample {
	slices.SortFunc(f.samples, func(a, b rayslice.Sample) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.GPU, b.GPU))
	})
	return f.samples
}
