package web

import (
	"net/url"
	"slices"
	"strings"
)

// navItem is one link of the main navigation.
type navItem struct {
	href, label string
	current     string // value of aria-current
	count       int    // shown behind the label; 0 = nothing
}

// navigation returns the links this user has, the one of this page marked.
func navigation(f Frame) []navItem {
	items := []navItem{{href: "/clusters", label: f.Locale.T("nav_clusters")}, {href: "/fleet", label: f.Locale.T("nav_fleet")}}
	if f.User.Admin || len(f.User.LeadTeams()) > 0 {
		items = append(items, navItem{href: "/approvals", label: f.Locale.T("nav_approvals"), count: f.Waiting})
	}
	for _, team := range f.User.Teams() {
		items = append(items, navItem{href: "/teams/" + url.PathEscape(team), label: f.Locale.T("nav_team", Args{"Team": team})})
	}
	if f.User.CanAdmin() {
		items = append(items, navItem{href: "/admin", label: f.Locale.T("nav_admin"), count: f.Raises})
	}
	path, _, _ := strings.Cut(f.Path, "?")
	for i := range items {
		items[i].current = "false"
		if path == items[i].href || strings.HasPrefix(path, items[i].href+"/") {
			items[i].current = "page"
		}
	}
	return items
}

// DoneCodes are the words of ?done= for what a form has just done, each with a sentence of its own.
var DoneCodes = []string{
	"limit", "raise_asked", "raise_withdrawn", "raise_granted", "raise_denied", "grant_ended", "deputy_named", "deputy_ended",
	"role_given", "role_taken", "disabled", "enabled", "sessions_ended", "token_revoked", "verify",
}

// savedText says what was just done; "" = nothing.
func savedText(f Frame) string {
	if !slices.Contains(DoneCodes, f.Done) {
		return ""
	}
	return f.Locale.T("saved_" + f.Done)
}

// otherLanguages returns what the language switch offers.
func otherLanguages(l *Localizer) []Language {
	var others []Language
	for _, language := range Languages() {
		if language.Code != l.Code() {
			others = append(others, language)
		}
	}
	return others
}
