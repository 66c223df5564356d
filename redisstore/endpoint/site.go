package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckSite is the fault of a process that works in a site ("" for none) with the shards.
func CheckSite(shards []Config, site string) error {
	var sites []string
	for _, s := range shards {
		if s.Site != "" && !slices.Contains(sites, s.Site) {
			sites = append(sites, s.Site)
		}
	}
	switch {
	case site == "" && len(sites) > 0:
		return fmt.Errorf("the shards belong to the sites %s; say with CHRONOS_SITE in which of them this process runs", strings.Join(sites, ", "))
	case site != "" && len(sites) == 0:
		return errors.New("CHRONOS_SITE is set, and no shard of CHRONOS_REDIS names its site; write the shards as a@london=redis://…")
	case site != "" && !slices.Contains(sites, site):
		return fmt.Errorf("CHRONOS_SITE is %s, and CHRONOS_REDIS has no shard of this site; its sites are %s", site, strings.Join(sites, ", "))
	}
	return nil
}
