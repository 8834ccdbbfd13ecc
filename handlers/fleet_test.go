package handlers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store/storetest"
)

// full is a fleet of one node with two cards, on which own, another team's and a foreign pod lie.
func (p *portal) full(own, theirs rayslice.Request) {
	p.t.Helper()
	hold := func(id, team string, card, gib int) rayslice.Hold {
		return rayslice.Hold{RequestID: id, Team: team, Foreign: team == "", Namespace: "ns-of-" + cmp.Or(team, "nobody"), Pod: "pod-of-" + cmp.Or(team, "nobody"), Node: "n1",
			Slice: rayslice.Slice{Pool: "a10", GiB: gib, Cards: 1}, Placements: []rayslice.Placement{{Card: card, GiB: gib}}}
	}
	err := p.store.SaveFleet(p.t.Context(), rayslice.System, rayslice.Fleet{ObservedAt: time.Now(), Strays: 2,
		Nodes: []rayslice.Node{
			{Name: "n1", Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 2, CardGiB: 22, MaxPods: 20},
			{Name: "n2", Pool: "a10", Mode: rayslice.ModeCGPU, Problems: []rayslice.Reason{{Code: "node_not_ready", Args: map[string]any{"node": "n2"}}}},
		},
		Pools: []rayslice.PoolStatus{{Pool: "a10", Nodes: 2, Looked: 2, Cards: 2, LargestGiB: 22}},
		Holds: []rayslice.Hold{hold(own.ID, "vision", 0, 8), hold("", "", 0, 8), hold(theirs.ID, "speech", 1, 16)},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.later(seenFor)
}

// TestFleetPage is B112: who looks sees who holds each card, and of other teams and foreign pods only that they do.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	p := open(t)
	draft := storetest.Draft(1, 16)
	draft.Team, draft.Name = "speech", "secret-project"
	own, theirs := p.create(p.Ada, storetest.Draft(1, 8)), p.create(p.Sam, draft)
	p.full(own, theirs)
	for who, tc := range map[string]struct {
		visitor visitor
		hidden  []string
		cards   []string
	}{
		"a member": {p.as(p.Ada), []string{"secret-project", "pod-of-speech", "ns-of-nobody", "pod-of-nobody", theirs.ID},
			[]string{"card 0; ablation-7, 8 GiB; not started by rayslice, 8 GiB; 6 GiB free", "card 1; other team, 16 GiB; 6 GiB free"}},
		"a member of the other": {p.as(p.Sam), []string{"ablation-7", "pod-of-vision", "ns-of-nobody", "pod-of-nobody", own.ID},
			[]string{"card 0; other team, 8 GiB; not started by rayslice, 8 GiB; 6 GiB free", "card 1; secret-project, 16 GiB; 6 GiB free"}},
		"an admin": {p.as(p.Root), nil,
			[]string{"card 0; ablation-7, 8 GiB; ns-of-nobody/pod-of-nobody, 8 GiB; 6 GiB free", "card 1; secret-project, 16 GiB; 6 GiB free"}},
	} {
		got := tc.visitor.get("/fleet").want(http.StatusOK)
		main := got.page().Find("main")
		var cards []string
		for _, bar := range main.Find("svg.card-bar").EachIter() {
			cards = append(cards, bar.AttrOr("aria-label", ""))
		}
		if diff := gocmp.Diff(tc.cards, cards); diff != "" {
			t.Errorf("%s sees (-want +got):\n%s", who, diff)
		}
		html, err := main.Html()
		if err != nil {
			t.Fatal(err)
		}
		capacity := tc.visitor.get("/api/v1/capacity").want(http.StatusOK).Body.String()
		table := tc.visitor.get("/fleet?view=table").want(http.StatusOK).page().Find("main").Text()
		for _, word := range tc.hidden {
			if strings.Contains(html, word) || strings.Contains(capacity, word) || strings.Contains(table, word) {
				t.Errorf("%s sees %q", who, word)
			}
		}
		if text := main.Find("#node-n2").Text(); !strings.Contains(text, "not ready") {
			t.Errorf("the node that is not ready says %q", text)
		}
		if text := main.Find("#fleet-sums").Text(); !strings.Contains(text, "32 of 44 GiB") || !strings.Contains(text, "2 GPU nodes") {
			t.Errorf("the sums say %q", text)
		}
	}
	if href := p.as(p.Ada).get("/fleet?view=table").page().Find("#card-n1-0 li a").AttrOr("href", ""); href != "/clusters/"+own.ID {
		t.Errorf("the own cluster leads to %q", href)
	}
}

func TestFleetFilter(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.full(rayslice.Request{}, rayslice.Request{})
	ada := p.as(p.Ada)
	for query, want := range map[string]int{"": 2, "?pool=a10": 2, "?problem=1": 1, "?mode=cgpu": 2, "?mode=whole": 0, "?pool=a10&problem=1&mode=cgpu": 1, "?page=2": 2} { // the last page there is
		if got := ada.get("/fleet" + query).want(http.StatusOK).page().Find(".node").Length(); got != want {
			t.Errorf("%q shows %d nodes, want %d", query, got, want)
		}
	}
	for query, field := range map[string]string{"?pool=h100": "pool", "?mode=mps": "mode", "?page=0": "page", "?page=x": "page", "?page=99999999": "page"} {
		if got := ada.get("/fleet" + query); got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d, want 422 for %s", query, got.Code, field)
		}
	}
}

// TestFleetOfNoNodes is B053: an empty page says which labels it looked for, and at how many nodes.
func TestFleetOfNoNodes(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page := p.as(p.Ada).get("/fleet").want(http.StatusOK).page(); page.Find(".note.warn").Length() == 0 || page.Find("section.fleet, #fleet-sums").Length() != 0 {
		t.Errorf("before anything is known the page says %q", page.Find("main").Text())
	}
	err := p.store.SaveFleet(t.Context(), rayslice.System, rayslice.Fleet{ObservedAt: time.Now(), Pools: []rayslice.PoolStatus{{Pool: "a10", Looked: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	p.later(seenFor)
	panel := p.as(p.Ada).get("/fleet?pool=a10").want(http.StatusOK).page().Find("section.fleet")
	for key, value := range p.server.config.Catalogue.Pools[0].NodeSelector {
		if label := panel.Find("code").Text(); !strings.Contains(label, key+"="+value) {
			t.Errorf("the page names %q, want %s=%s", label, key, value)
		}
	}
	if !strings.Contains(panel.Text(), "5 nodes were looked at") {
		t.Errorf("the page says %q", panel.Text())
	}
}

// TestFleetPages has room for 200 nodes of 8 cards.
func TestFleetPages(t *testing.T) {
	t.Parallel()
	p := open(t)
	fleet := rayslice.Fleet{ObservedAt: time.Now()}
	for n := range 200 {
		name := fmt.Sprintf("n%03d", n)
		fleet.Nodes = append(fleet.Nodes, rayslice.Node{Name: name, Pool: "a10", Mode: rayslice.ModeCGPU, Ready: true, Cards: 8, CardGiB: 22, MaxPods: 20})
		for i := range 24 {
			fleet.Holds = append(fleet.Holds, rayslice.Hold{Foreign: true, Namespace: "x", Pod: fmt.Sprintf("p%d", i), Node: name,
				Slice: rayslice.Slice{GiB: 4, Cards: 1}, Placements: []rayslice.Placement{{Card: i % 8, GiB: 4}}})
		}
	}
	if err := p.store.SaveFleet(t.Context(), rayslice.System, fleet); err != nil {
		t.Fatal(err)
	}
	ada := p.as(p.Ada)
	seen := map[string]bool{}
	for path := "/fleet"; path != ""; {
		page := ada.get(path).want(http.StatusOK).page()
		for _, node := range page.Find(".node b").EachIter() {
			seen[node.Text()] = true
		}
		if cards := page.Find(".card-bar").Length(); cards != fleetNodes*8 {
			t.Errorf("%s shows %d cards", path, cards)
		}
		if sums := page.Find("#fleet-sums").Text(); !strings.Contains(sums, "19200 of 35200 GiB") {
			t.Errorf("%s says %q", path, sums)
		}
		path = page.Find("a[rel=next]").AttrOr("href", "")
	}
	if len(seen) != 200 {
		t.Errorf("%d nodes on all pages", len(seen))
	}
	begin := time.Now()
	ada.get("/clusters/new").want(http.StatusOK)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the form takes %v with 1,600 cards", took)
	}
}

// TestFormSaysWhenASizeFits reads the badge of every size.
func TestFormSaysWhenASizeFits(t *testing.T) {
	t.Parallel()
	p := open(t)
	draft := storetest.Draft(1, 16)
	draft.Team, draft.Name, draft.Hours = "speech", "secret-project", 5
	own, theirs := p.create(p.Ada, storetest.Draft(1, 8)), p.create(p.Sam, draft)
	p.full(own, theirs)
	room := func(v visitor, size string) string {
		return strings.Join(strings.Fields(v.get("/clusters/new").want(http.StatusOK).page().Find("#room-"+size).Text()), " ")
	}
	ada, sam := p.as(p.Ada), p.as(p.Sam)
	if got := room(ada, "a10-4"); got != "fits now on 2 cards" {
		t.Errorf("4 GiB: %q", got)
	}
	mine, other := room(ada, "a10-8"), room(sam, "a10-8")
	if own.EndsAt.Before(theirs.EndsAt) {
		mine, other = other, mine
	}
	if !strings.Contains(mine, "when another team's cluster ends, at the latest") || !strings.Contains(other, "when secret-project ends, at the latest") {
		t.Errorf("8 GiB: to vision %q, to speech %q", mine, other)
	}
	p.full(rayslice.Request{ID: "nobodyknows2", Team: "vision"}, rayslice.Request{ID: "nobodyknows3"})
	if got := room(ada, "a10-8"); !strings.Contains(got, "no date is known") {
		t.Errorf("8 GiB beside clusters nobody knows: %q", got)
	}
	form := goodForm()
	form.Set("groups[0].size", "a10:16")
	form.Set("groups[0].workers", "9")
	text := ada.post("/clusters/preview", form).page().Find("#room").Text()
	if !strings.Contains(text, "Even with nobody else there") {
		t.Errorf("nine of 16 GiB on two cards: %q", text)
	}
}

// TestCapacity compares the API's numbers with what was observed.
func TestCapacity(t *testing.T) {
	t.Parallel()
	p := open(t)
	var unknown struct {
		ObservedAt *time.Time `json:"observed_at"`
		PodsKnown  bool       `json:"pods_known"`
		Pools      []struct {
			Sizes []struct{ Fits *bool }
		}
	}
	token := p.token(p.adaToken)
	if err := json.Unmarshal(token.get("/api/v1/capacity").want(http.StatusOK).Body.Bytes(), &unknown); err != nil {
		t.Fatal(err)
	}
	if unknown.ObservedAt != nil || unknown.PodsKnown || len(unknown.Pools) == 0 || unknown.Pools[0].Sizes[0].Fits != nil {
		t.Errorf("unknown is not zero: %+v", unknown)
	}
	own := p.create(p.Ada, storetest.Draft(1, 8))
	p.full(own, rayslice.Request{ID: "ofanotherone"})
	var got capacityJSON
	if err := json.Unmarshal(token.get("/api/v1/capacity").want(http.StatusOK).Body.Bytes(), &got); err != nil || !got.PodsKnown {
		t.Fatalf("pods are known: %t, %v", got.PodsKnown, err)
	}
	pool := got.Pools[0]
	if want := (rayslice.PoolSum{Nodes: 2, Cards: 2, GiB: 44, GivenGiB: 32, FreeGiB: 12, Largest: 6, Troubled: 1}); pool.PoolSum != want {
		t.Errorf("pool %+v, want %+v", pool.PoolSum, want)
	}
	for _, size := range pool.Sizes {
		if fits := size.SliceGiB <= 6; size.Fits == nil || *size.Fits != fits || fits != (size.OnCards == 2) || fits == (size.LatestStart != nil) && size.SliceGiB == 8 {
			t.Errorf("size %+v", size)
		}
		if size.SliceGiB == 8 && (size.Until == nil || *size.Until != own.ID || !size.LatestStart.Equal(own.EndsAt)) {
			t.Errorf("8 GiB until %v at %v, want %s at %v", size.Until, size.LatestStart, own.ID, own.EndsAt)
		}
	}
	card := got.Nodes[0].Cards[0]
	if card.FreeGiB != 6 || card.UpTo || len(card.Parts) != 2 || card.Parts[0].Holder != "own" || *card.Parts[0].Name != "ablation-7" || card.Parts[1].Holder != "foreign" || card.Parts[1].Pod != nil {
		t.Errorf("card %+v", card)
	}
	if len(got.Nodes[1].Problems) != 1 || got.Nodes[1].Usable || got.Strays != 2 {
		t.Errorf("nodes %+v", got.Nodes)
	}
}

// The fleet says of each node what the latest conclusive verification found there.
func TestFleetVerdicts(t *testing.T) {
	t.Parallel()
	p := open(t)
	own, theirs := p.create(p.Ada, storetest.Draft(1, 8)), p.create(p.Sam, func() rayslice.RequestDraft {
		draft := storetest.Draft(1, 16)
		draft.Team = "speech"
		return draft
	}())
	p.full(own, theirs)
	storetest.Exec(t, `INSERT INTO verifications (run, request_id, ended_at) VALUES ('r', $1, now())`, theirs.ID)
	for _, step := range []struct {
		verdict, badge string
	}{{"inconclusive", ""}, {"enforced", "slices verified: enforced"}, {"inconclusive", "slices verified: enforced"}, {"not_enforced", "slices verified: not enforced"}} {
		storetest.Exec(t, `INSERT INTO certificates (run, request_id, pod_uid, node, enforcement, at, certificate) VALUES ('r', $1, gen_random_uuid(), 'n1', $2, now(), '{}')`,
			theirs.ID, step.verdict)
		for _, query := range []string{"", "?view=table"} {
			got := p.as(p.Ada).get("/fleet" + query).want(http.StatusOK).page().Find("section.fleet").Text()
			if at := strings.Contains(got, "slices verified"); at != (step.badge != "") || !strings.Contains(got, step.badge) {
				t.Errorf("after %s the fleet%s says %q", step.verdict, query, got)
			}
		}
	}
}
