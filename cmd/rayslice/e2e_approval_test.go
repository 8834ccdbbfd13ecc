package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// TestApprovalStory is the story of three people: a researcher asks for more than starts at once, the lead approves less,
// the cluster starts; the lead asks for more quota, an admin grants it until tomorrow, and it returns by itself.
func TestApprovalStory(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	i.leads()
	mei, arjun, wei := i.visit(), i.visit(), i.visit()
	mei.signIn("Mei Lin")
	arjun.signIn("Arjun Rao")
	wei.signIn("Wei Zhang")

	id := mei.askForTooMuch("sweep-12")
	arjun.approveLess(id)
	mei.do("see it run", chromedp.WaitVisible(`//h1/span[text()="Ready"]`, chromedp.BySearch))
	granted := i.request(id)
	if group := granted.Draft.Groups[0]; group.Workers != 2 || granted.Draft.Hours != 4 || granted.Charge.GiB != 16 || granted.DecidedBy != "Arjun Rao" {
		t.Errorf("granted %+v for %d h, %+v, by %q; want 2 workers for 4 h by Arjun Rao", group, granted.Draft.Hours, granted.Charge, granted.DecidedBy)
	}
	mei.do("read what came of it", chromedp.Reload(), chromedp.WaitVisible(`.pods tbody tr:nth-child(3)`, chromedp.ByQuery))
	wantAll(t, mei.text(`main`), "Arjun Rao", "Two will do for now.", "3 × 8 GiB", "2 × 8 GiB")
	mei.look("approval-4-granted")
	i.until("Mei is told", func() bool {
		notices, err := i.store.Notices(i.Context(), i.mei, store.NoticeFilter{})
		i.must(err)
		return len(notices.Notices) >= 2 // approved, and ready
	})
	mei.do("open the bell", chromedp.Navigate(i.url+"/notifications"), chromedp.WaitVisible(`//main//*[contains(text(), "“sweep-12” is ready")]`, chromedp.BySearch))
	mei.look("approval-5-notifications")

	arjun.askForMoreQuota()
	wei.grantUntilTomorrow()
	arjun.do("see the limit", chromedp.Reload(), chromedp.WaitVisible(`.legend`, chromedp.ByQuery))
	wantAll(t, arjun.text(`main`), "116 GiB", "Wei Zhang")
	arjun.look("approval-8-raised")
	i.letGrantsEnd()
	arjun.do("see the limit again", chromedp.Reload(), chromedp.WaitVisible(`.legend`, chromedp.ByQuery))
	if text := arjun.text(`.legend`); strings.Contains(text, "116") || !strings.Contains(text, "96 GiB") {
		t.Errorf("the limit has not returned: %s", text)
	}
	i.until("the sweep has recorded the end", func() bool {
		log, err := i.store.AuditLog(i.Context(), rayslice.User{ID: -1, Admin: true}, store.AuditFilter{Team: "vision", Action: "grant_ended"})
		i.must(err)
		return len(log.Entries) == 1
	})
	wei.do("read the audit log", chromedp.Navigate(i.url+"/admin/audit?team=vision"), chromedp.WaitVisible(`table.audit`, chromedp.ByQuery))
	wantAll(t, wei.text(`table.audit`), "Mei Lin", "Arjun Rao", "Wei Zhang", id)
	wei.look("approval-9-audit")

	mei.do("stop", chromedp.Navigate(i.url+"/clusters/"+id), chromedp.Click(`#stop`, chromedp.ByQuery),
		chromedp.WaitVisible(`#stop-dialog`, chromedp.ByQuery), chromedp.Click(`#stop-dialog .danger-solid`, chromedp.ByQuery))
	i.untilState(id, rayslice.StateStopped)
	i.checkNothingLeft()
	for _, v := range []*visitor{mei, arjun, wei} {
		for _, line := range v.said.Take() {
			if !isPreview(line) {
				t.Errorf("the console says: %s", line)
			}
		}
	}
}

// askForTooMuch asks for 3 × 8 GiB where 16 start at once, and sees before sending that a lead decides.
func (v *visitor) askForTooMuch(name string) string {
	v.Helper()
	v.do("open the form", chromedp.Click(`.title a.primary`, chromedp.ByQuery), chromedp.WaitVisible(`#request-form`, chromedp.ByQuery))
	v.fillIn(name)
	v.do("ask for three", typeIn(`input[name="groups[0].workers"]`, "3"), typeIn(`textarea[name="purpose"]`, "Ablation of the new loss for the March paper"),
		chromedp.WaitVisible(`//*[@id="next" and contains(., "24 GiB")]`, chromedp.BySearch))
	wantAll(v.T, v.text(`#request-aside`), "16 GiB", "Arjun Rao", "96 GiB")
	v.look("approval-1-form")
	v.do("send it", chromedp.Click(`#request-aside button`, chromedp.ByQuery))
	id := v.requestID()
	v.do("see it wait", chromedp.WaitVisible(`//h1/span[text()="Waiting"]`, chromedp.BySearch))
	v.look("approval-2-waiting")
	return id
}

// approveLess grants two workers for four hours.
func (v *visitor) approveLess(id string) {
	v.Helper()
	form := fmt.Sprintf(`form[action="/approvals/%s"] `, id)
	v.do("open approvals", chromedp.Navigate(v.url+"/approvals"), chromedp.WaitVisible(form, chromedp.ByQuery))
	wantAll(v.T, v.text(`main`), "sweep-12", "Ablation of the new loss", "Mei Lin", "24 GiB")
	v.look("approval-3-approvals")
	v.do("approve less",
		typeIn(form+`[name="groups[0].workers"]`, "2"), typeIn(form+`[name="hours"]`, "4"), typeIn(form+`[name="answer"]`, "Two will do for now."),
		chromedp.WaitVisible(`//button[@value="approve" and contains(., "16 GiB")]`, chromedp.BySearch),
		chromedp.Click(form+`button[value="approve"]`, chromedp.ByQuery), chromedp.WaitVisible(`#done`, chromedp.ByQuery))
}

// tomorrow is the day that both ends of a raise are set to.
func tomorrow() string { return time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly) }

// setDay fills in a date, which browsers show in the reader's own way.
func setDay(selector, day string) chromedp.Action {
	return chromedp.SetValue(selector, day, chromedp.ByQuery)
}

func (v *visitor) askForMoreQuota() {
	v.Helper()
	const form = `form[action="/teams/vision/raises"] `
	v.do("ask for more quota", chromedp.Navigate(v.url+"/teams/vision"),
		chromedp.Evaluate(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil),
		typeIn(form+`[name="gib"]`, "32"), typeIn(form+`[name="purpose"]`, "Camera-ready runs"), setDay(form+`[name="until"]`, tomorrow()))
	v.look("approval-6-ask-for-more")
	v.do("send it", chromedp.Click(form+`button`, chromedp.ByQuery), chromedp.WaitVisible(`//*[contains(text(), "Camera-ready runs")]`, chromedp.BySearch))
}

// grantUntilTomorrow grants 20 of the 32 GiB.
func (v *visitor) grantUntilTomorrow() {
	v.Helper()
	v.do("find the raise", chromedp.Navigate(v.url+"/admin/raises"), chromedp.Click(`main table a[href^="/admin/raises/"]`, chromedp.ByQuery),
		chromedp.WaitVisible(`button[value="grant"]`, chromedp.ByQuery))
	v.look("approval-7-raise")
	v.do("grant a part", typeIn(`main form [name="gib"]`, "20"), setDay(`main form [name="until"]`, tomorrow()),
		chromedp.Click(`button[value="grant"]`, chromedp.ByQuery), chromedp.WaitNotPresent(`button[value="grant"]`, chromedp.ByQuery))
}

// letGrantsEnd moves the end of what was granted until a day to now, as if that day were over.
func (i *installation) letGrantsEnd() {
	i.Helper()
	storetest.Exec(i.T, `UPDATE grants SET until_at = now() WHERE until_at IS NOT NULL`)
	storetest.Exec(i.T, `UPDATE quotas SET limit_until = now() WHERE limit_until IS NOT NULL`)
}

// TestT01TwoPortals sends 50 requests of 1 GiB at once, by fifty people through two portal processes, to a team of 20 GiB,
// 100 times over: exactly 20 are charged.
func TestT01TwoPortals(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.holdLease() // nothing starts, so that 100 rounds need no 2,000 clusters
	people := i.crowd(50)
	i.offerOneGiB()
	i.start()
	first := i.url
	second := i.another()
	for round := range 100 {
		ids := i.askAtOnce(people, [2]string{first, second})
		if len(ids) != 20 {
			t.Fatalf("round %d: %d requests accepted, want 20", round, len(ids))
		}
		quota, err := i.store.Quota(t.Context(), rayslice.System, "crowd")
		i.must(err)
		if quota.Used != (rayslice.Charge{GiB: 20}) {
			t.Fatalf("round %d: %+v charged, want 20 GiB", round, quota.Used)
		}
		for _, id := range ids {
			_, err := i.store.StopRequest(t.Context(), rayslice.System, id)
			i.must(err)
			i.must(i.store.Move(t.Context(), rayslice.System, id, rayslice.StateStopping, rayslice.StateStopped, rayslice.Reason{}, ""))
		}
	}
	drift, err := i.store.QuotaDrift(t.Context(), rayslice.System)
	i.must(err)
	if len(drift) > 0 {
		t.Errorf("quotas differ from their ledger: %+v", drift)
	}
}

// crowd makes a team of 20 GiB with n members and returns an API token of each.
func (i *installation) crowd(n int) []string {
	i.Helper()
	seed := store.Seed{Teams: []store.SeedTeam{{Name: "crowd", Namespace: i.lease + "-crowd", LimitGiB: 20}}}
	for k := range n {
		seed.Users = append(seed.Users, store.SeedUser{Name: fmt.Sprintf("Member %d", k), Email: fmt.Sprintf("member-%d@example.org", k),
			Roles: map[string]rayslice.Role{"crowd": rayslice.RoleMember}})
	}
	i.must(i.store.Seed(i.Context(), rayslice.System, seed))
	people, err := i.store.Personas(i.Context(), rayslice.System)
	i.must(err)
	var tokens []string
	for _, person := range people {
		secret, _, err := i.store.CreateToken(i.Context(), person, rayslice.TokenDraft{Name: "notebook", Scopes: rayslice.Scopes(), Days: 1})
		i.must(err)
		tokens = append(tokens, secret)
	}
	return tokens
}

// offerOneGiB lets the portal offer slices of 1 GiB as well.
func (i *installation) offerOneGiB() {
	i.Helper()
	file := filepath.Join(i.TempDir(), "catalogue.yaml")
	i.must(os.WriteFile(file, bytes.ReplaceAll(defaultCatalogue, []byte("sizes: [2,"), []byte("sizes: [1, 2,")), 0o600))
	i.env = append(i.env, "RAYSLICE_CATALOGUE="+file, "RAYSLICE_LOG_LEVEL=warn")
}

// another runs one more portal beside the first, on the same database, and returns its address.
func (i *installation) another() string {
	i.Helper()
	first := i.portal
	defer func() { i.portal = first }()
	addr := freeAddr(i.T)
	i.env = append(i.env, "RAYSLICE_ADDR="+addr)
	i.start()
	return "http://" + addr
}

// askAtOnce sends one request for each token, in turn through both portals, and returns the ids of those accepted. All
// others must have been refused for want of quota.
func (i *installation) askAtOnce(tokens []string, portals [2]string) []string {
	i.Helper()
	var mu sync.Mutex
	var ids []string
	var group sync.WaitGroup
	for n, token := range tokens {
		group.Go(func() {
			got, err := i.callAs(token, portals[n%2])
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				i.Error(err)
			case got.status == http.StatusCreated:
				ids = append(ids, got.ID)
			case got.status != http.StatusConflict:
				i.Errorf("answered %d %s", got.status, got.Detail)
			}
		})
	}
	group.Wait()
	return ids
}

// callAs asks for 1 GiB in the crowd's name.
func (i *installation) callAs(token, portal string) (answer, error) {
	body := strings.NewReader(`{"team": "crowd", "name": "one", "hours": 8, "pool": "a10", "slice_gib": 1, "workers": 1}`)
	request, err := http.NewRequestWithContext(i.Context(), http.MethodPost, portal+"/api/v1/requests", body)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	return i.send(request)
}
