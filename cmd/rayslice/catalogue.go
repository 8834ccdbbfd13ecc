package main

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rayslice/rayslice"
)

//go:embed catalogue.yaml
var defaultCatalogue []byte

// loadCatalogue reads the catalogue from the file, or the default one when path is empty. Limits that are left out
// keep their defaults, and max_cards is 1. Every fault is named by file and field.
func loadCatalogue(path string) (rayslice.Catalogue, error) {
	catalogue := rayslice.Catalogue{Limits: rayslice.DefaultLimits()}
	err := readYAML(path, "catalogue.yaml", defaultCatalogue, &catalogue, func() error {
		for i := range catalogue.Pools {
			if catalogue.Pools[i].MaxCards == 0 {
				catalogue.Pools[i].MaxCards = 1
			}
		}
		return checkCatalogue(catalogue)
	})
	return catalogue, err
}

// faults collects what is wrong with a file, each by its field.
type faults []error

func (f *faults) unless(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

var (
	dnsLabel   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	rayRelease = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,3}\.[0-9]{1,3}$`)
)

func checkCatalogue(c rayslice.Catalogue) error {
	var f faults
	f.unless(len(c.Pools) > 0, "pools: needs at least one")
	f.unless(len(c.Images) > 0, "images: needs at least one; the first is the default")
	names, refs := map[string]bool{}, map[string]bool{}
	for i, pool := range c.Pools {
		at := fmt.Sprintf("pools[%d].", i)
		f.unless(!names[pool.Name], "%sname: %q stands twice", at, pool.Name)
		names[pool.Name] = true
		f.pool(at, pool)
	}
	for i, image := range c.Images {
		at := fmt.Sprintf("images[%d].", i)
		f.unless(image.Ref != "" && !refs[image.Ref], "%sref: %q is empty or stands twice", at, image.Ref)
		refs[image.Ref] = true
		f.unless(rayRelease.MatchString(image.RayVersion), "%sray_version: %q is not like 2.52.0", at, image.RayVersion)
	}
	f.unless(!slices.Contains(c.ImagePrefixes, ""), "image_prefixes: an empty one would allow every image")
	f.limits(c.Limits)
	return errors.Join(f...)
}

func (f *faults) pool(at string, p rayslice.Pool) {
	modes := []rayslice.Mode{rayslice.ModeCGPU, rayslice.ModeCoreMem, rayslice.ModeShare, rayslice.ModeWhole}
	f.unless(dnsLabel.MatchString(p.Name), "%sname: %q must be lower-case letters, digits and dashes, starting with a letter", at, p.Name)
	f.unless(slices.Contains(modes, p.Mode), "%smode: %q is none of cgpu, core_mem, share, whole", at, p.Mode)
	f.unless(p.MaxCards >= 1, "%smax_cards: must be at least 1, is %d", at, p.MaxCards)
	f.unless(len(p.NodeSelector) > 0, "%snode_selector: needs at least one label, or the pool would be every node", at)
	f.unless(p.CardGiB >= 1, "%scard_gib: must be at least 1, is %d", at, p.CardGiB)
	f.unless(p.CardMiB == 0 || p.CardMiB/1024 >= p.CardGiB, "%scard_mib: %d MiB is less than card_gib, %d GiB", at, p.CardMiB, p.CardGiB)
	if p.Mode == rayslice.ModeWhole {
		f.unless(len(p.Sizes) == 0, "%ssizes: whole cards have none", at)
		return
	}
	f.unless(len(p.Sizes) > 0, "%ssizes: needs at least one, in GiB", at)
	f.unless(slices.IsSorted(p.Sizes) && len(slices.Compact(slices.Clone(p.Sizes))) == len(p.Sizes), "%ssizes: must ascend", at)
	for _, gib := range p.Sizes {
		f.unless(gib >= 1 && gib <= p.CardGiB, "%ssizes: %d does not fit a card of %d GiB", at, gib, p.CardGiB)
	}
}

func (f *faults) limits(l rayslice.Limits) {
	f.unless(l.MaxWorkers >= 1, "limits.max_workers: must be at least 1, is %d", l.MaxWorkers)
	f.unless(l.MaxGroups >= 1, "limits.max_groups: must be at least 1, is %d", l.MaxGroups)
	f.unless(l.MaxHours >= 1, "limits.max_hours: must be at least 1, is %d", l.MaxHours)
	f.unless(l.MinHeadMemoryGiB >= 1, "limits.min_head_memory_gib: must be at least 1, is %d", l.MinHeadMemoryGiB)
	f.unless(l.MaxMemoryGiB >= l.MinHeadMemoryGiB, "limits.max_memory_gib: %d is less than min_head_memory_gib, %d", l.MaxMemoryGiB, l.MinHeadMemoryGiB)
	f.unless(l.MaxCPU >= 1, "limits.max_cpu: must be at least 1, is %d", l.MaxCPU)
}
