package handlers

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers/api"
)

// ShowOptions says what the caller may ask for, so that any program can draw a form.
func (p program) ShowOptions(ctx context.Context, _ api.ShowOptionsRequestObject) (api.ShowOptionsResponseObject, error) {
	c := echoOf(ctx)
	fleet, err := p.config.Store.Fleet(ctx, user(c))
	if err != nil {
		return nil, err
	}
	quotas, err := p.config.Store.Quotas(ctx, user(c))
	if err != nil {
		return nil, err
	}
	answer := api.ShowOptions200JSONResponse{
		Defaults: api.Defaults{
			Hours: rayslice.DefaultHours, Head: rayslice.Head{CPU: rayslice.DefaultHeadCPU, MemoryGiB: rayslice.DefaultHeadMemoryGiB},
			WorkerCpu: rayslice.DefaultWorkerCPU, WorkerMemoryGib: rayslice.DefaultWorkerMemoryGiB,
		},
		States: rayslice.States(), Teams: []api.TeamOptions{},
		MaxNameLength: rayslice.MaxNameLength, MaxPurposeLength: rayslice.MaxPurposeLength, MaxAnswerLength: rayslice.MaxAnswerLength,
	}
	for _, q := range quotas {
		if !user(c).CanAsk(q.Team) { // an admin sees every team, and asks only in their own
			continue
		}
		team, err := p.teamOptions(c, q, fleet)
		if err != nil {
			return nil, err
		}
		answer.Teams = append(answer.Teams, team)
	}
	return answer, nil
}

func (s *Server) teamOptions(c echo.Context, quota rayslice.Quota, fleet rayslice.Fleet) (api.TeamOptions, error) {
	rules, err := s.config.Store.Rules(c.Request().Context(), user(c), quota.Team)
	if err != nil {
		return api.TeamOptions{}, err
	}
	catalogue, rules := rules.Narrow(s.config.Catalogue), rules.Under(quota.Limit)
	team := api.TeamOptions{
		Team: quota.Team, Quota: quotaNumbers(quota), Limits: catalogue.Limits, ImagePrefixes: append([]string{}, catalogue.ImagePrefixes...),
		StartsAtOnce: api.AtOnce{Charge: rules.Auto, Hours: rules.AutoHours}, Pools: []api.PoolOptions{}, Images: []api.ImageOption{},
	}
	for _, pool := range catalogue.Pools {
		if pool.Offered() {
			team.Pools = append(team.Pools, poolOptions(c, pool, fleet))
		}
	}
	for _, m := range catalogue.Images {
		team.Images = append(team.Images, api.ImageOption{Name: m.Name, Ref: m.Ref, RayVersion: m.RayVersion, PythonVersion: said(m.Python)})
	}
	return team, nil
}

// poolOptions says what there is of one pool, and whether its own nodes have closed it.
func poolOptions(c echo.Context, pool rayslice.Pool, fleet rayslice.Fleet) api.PoolOptions {
	var blocked rayslice.Reason
	if i := slices.IndexFunc(fleet.Pools, func(p rayslice.PoolStatus) bool { return p.Pool == pool.Name }); i >= 0 {
		blocked = fleet.Pools[i].Blocked
	}
	return api.PoolOptions{
		Name: pool.Name, Model: pool.Model, Mode: pool.Mode, CardGib: pool.CardGiB, Sizes: append([]int{}, pool.Sizes...), MaxCards: pool.MaxCards,
		Whole: !pool.Mode.Sliced(), Isolated: pool.Mode.Isolated(), CorePercent: pool.Mode == rayslice.ModeCoreMem,
		Open: blocked.IsZero(), Closed: reasonOf(c, blocked),
	}
}
