package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rayslice/rayslice"
)

// SampleUse returns what a source may have said about the workers of a cluster: slices' own memory, their cards' utilisation.
func SampleUse(c rayslice.Cluster, now time.Time) rayslice.Use {
	at := now.Add(-3 * time.Second)
	u := rayslice.Use{RequestID: c.RequestID, AskedAt: at, DataAt: at, Source: rayslice.UseFromRay}
	for i, w := range c.Workers {
		if w.Slice.IsZero() {
			continue
		}
		used, limit, percent := 6246-2100*(i%3), 8373, float64(71-30*(i%2))
		u.Samples = append(u.Samples, rayslice.Sample{RequestID: c.RequestID, PodUID: w.UID, Pod: w.Name, GPU: fmt.Sprintf("GPU-%d", i), At: at, Source: u.Source,
			UsedMiB: &used, LimitMiB: &limit, MemoryGrade: rayslice.GradeSlice, Percent: &percent, Grade: rayslice.GradeCard})
	}
	return u
}

// sampleHistory makes up a past with a gap in it.
func sampleHistory(c rayslice.Cluster, name string, now time.Time) UseHistory {
	length, step, _ := UseStretch(name)
	h := UseHistory{Range: name, From: now.Add(-length), To: now, Step: step}
	for at := h.From.Truncate(step).Add(step); at.Before(now); at = at.Add(step) {
		share := float64(at.Sub(h.From)) / float64(length)
		if share > .6 && share < .7 {
			continue
		}
		for i, w := range c.Workers {
			used := (7000 - 2500*float64(i%3)) * (1 - math.Exp(-6*share))
			percent, limit, peak := 60+20*math.Sin(20*share), 8373, int(used)
			h.Points = append(h.Points, rayslice.UsePoint{At: at.UTC(), PodUID: w.UID, Pod: w.Name, GPU: "GPU-1", Samples: 12, UsedMiB: &used, PeakMiB: &peak, LimitMiB: &limit,
				MemoryGrade: rayslice.GradeSlice, Percent: &percent, Grade: rayslice.GradeCard})
		}
	}
	return h
}

// SampleHistory returns the past that the samples show.
func SampleHistory(name string, now time.Time) UseHistory {
	return sampleHistory(SampleRow(now, rayslice.StateReady).Cluster, name, now)
}

// sampleTeamUse makes up a week of a team.
func sampleTeamUse(now time.Time) rayslice.TeamUse {
	u := rayslice.TeamUse{Team: "vision", Idle: []rayslice.IdleHolder{
		{RequestID: "k5d2m7qxw3ab", Name: "tokeniser-smoke", Owner: "Lin Wei", Charge: rayslice.Charge{GiB: 16}, Since: now.Add(-11 * time.Hour)},
		{RequestID: "p5d2m7qxw3ab", Name: strings.Repeat("very-long-name-", 5), Owner: "نور الهدى", Charge: rayslice.Charge{GiB: 8, Cards: 1}, Since: now.Add(-2*time.Hour - 5*time.Minute)},
	}}
	for i := range 168 {
		point := rayslice.TeamUsePoint{At: now.Truncate(time.Hour).Add(time.Duration(i-167) * time.Hour), GrantedGiB: 16 + 8*float64(i/12%5), Known: 4, Unknown: 1}
		if used := point.GrantedGiB * (.45 + .3*math.Sin(float64(i)/7)); i < 90 || i > 99 {
			point.UsedGiB = &used
		}
		u.Points = append(u.Points, point)
	}
	return u
}

func useSamples() []Sample {
	sample := func(name string, change func(*RequestPage)) Sample {
		return Sample{name, func(f Frame) templ.Component {
			row := SampleRow(f.Now, rayslice.StateReady)
			p := RequestPage{Frame: at(f, "/clusters/"+row.Request.ID), Request: row.Request, Cluster: row.Cluster, Catalogue: SampleCatalogue(), CanStop: true}
			for i := range p.Cluster.Workers {
				p.Cluster.Workers[i].UID = fmt.Sprintf("uid-%d", i)
			}
			p.Use, p.History = SampleUse(p.Cluster, f.Now), sampleHistory(p.Cluster, "hour", f.Now)
			change(&p)
			return RequestView(p)
		}}
	}
	return []Sample{
		sample("use", func(*RequestPage) {}),
		sample("use-prometheus", func(p *RequestPage) {
			p.Use.Source, p.History = rayslice.UseFromPrometheus, sampleHistory(p.Cluster, "week", p.Now)
			for i := range p.Use.Samples {
				p.Use.Samples[i].Grade = rayslice.GradeSlice
			}
		}),
		sample("use-unknown", func(p *RequestPage) {
			p.Use.Samples[0].UsedMiB, p.Use.Samples[0].Percent = nil, nil
			p.Use.Samples, p.Use.Dropped = p.Use.Samples[:1], 2
		}),
		sample("use-never", func(p *RequestPage) {
			p.Use = rayslice.Use{RequestID: p.Request.ID, AskedAt: p.Now, Problem: rayslice.Reason{Code: "head_mute", Args: Args{"minutes": 14}}}
			p.History.Points = nil
		}),
		sample("use-stale", func(p *RequestPage) {
			p.Use.DataAt = p.Now.Add(-14 * time.Minute)
			p.Use.Problem = rayslice.Reason{Code: "head_mute", Args: Args{"minutes": 14}}
		}),
		sample("use-card", func(p *RequestPage) {
			for i := range p.Use.Samples {
				p.Use.Samples[i].GPU, p.Use.Samples[i].MemoryGrade = "GPU-0", rayslice.GradeCard
			}
			for i := range p.History.Points {
				p.History.Points[i].MemoryGrade = rayslice.GradeCard
			}
		}),
		sample("use-many", func(p *RequestPage) {
			manyWorkers(p)
			for i := range p.Cluster.Workers {
				p.Cluster.Workers[i].UID = fmt.Sprintf("uid-%d", i)
			}
			p.Use = SampleUse(p.Cluster, p.Now)
		}),
		{"clusters-use", func(f Frame) templ.Component {
			rows := manyRows(f.Now)
			for i := range rows {
				rows[i].Request.State = rayslice.StateReady
				rows[i].Cluster = SampleRow(f.Now, rayslice.StateReady).Cluster
				for j := range rows[i].Cluster.Workers {
					rows[i].Cluster.Workers[j].UID = fmt.Sprintf("uid-%d", j)
				}
				switch rows[i].Use = SampleUse(rows[i].Cluster, f.Now); i % 4 {
				case 1:
					rows[i].Use.Samples = rows[i].Use.Samples[:1]
				case 2:
					rows[i].Use = rayslice.Use{}
				case 3:
					rows[i].Use.DataAt = f.Now.Add(-time.Hour)
				}
			}
			return ClusterListView(ClusterList{Frame: f, Rows: rows, Teams: f.User.Teams(), Quotas: sampleQuotas()})
		}},
	}
}
