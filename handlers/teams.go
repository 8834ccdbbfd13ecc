package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// showTeam shows a team's quota and what it is used for.
func (s *Server) showTeam(c echo.Context) error {
	ctx, actor := c.Request().Context(), user(c)
	team, err := s.config.Store.Team(ctx, actor, c.Param("name"))
	if err != nil {
		return err
	}
	quota, err := s.config.Store.Quota(ctx, actor, team.Name)
	if err != nil {
		return err
	}
	live, err := s.config.Store.Requests(ctx, actor, store.RequestFilter{Team: team.Name, States: liveStates(), Limit: maxListLength})
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx, actor, live.Requests)
	if err != nil {
		return err
	}
	frame, err := s.liveFrame(c)
	if err != nil {
		return err
	}
	return page(c, http.StatusOK, web.TeamView(web.TeamPage{Frame: frame, Team: team, Quota: quota, Rows: rows, More: live.Next != ""}))
}
