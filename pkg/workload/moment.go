package workload

import (
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // a file means the same on a machine that knows no zones

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// nowWord is the word for the time of creation.
const nowWord = "now"

// momentLayouts are the layouts of a time with a zone offset, or the Z of UTC.
var momentLayouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00", "2006-01-02 15:04 Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00"}

// localLayouts are the layouts of a time that is followed by the name of a zone.
var localLayouts = []string{"2006-01-02 15:04", "2006-01-02 15:04:05"}

// withoutZone matches a day, or a time without a zone.
var withoutZone = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?$`)

// parseMoment parses a time with its zone. A file is read on machines in several zones, so a time without a zone is ambiguous.
func parseMoment(s string) (time.Time, error) {
	for _, layout := range momentLayouts {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	if withoutZone.MatchString(s) {
		return time.Time{}, phrase.Errorf("says no time of day in a zone: write for example 2026-12-01 14:00 +01:00, 2026-12-01 14:00 UTC or 2026-12-01 14:00 Europe/Berlin")
	}
	cut := strings.LastIndexByte(s, ' ')
	if cut < 0 {
		return time.Time{}, momentError()
	}
	return parseMomentInZone(s[:cut], s[cut+1:])
}

// parseMomentInZone parses a time in a zone given by name.
func parseMomentInZone(local, name string) (time.Time, error) {
	for _, layout := range localLayouts {
		if _, err := time.Parse(layout, local); err != nil {
			continue
		}
		zone, err := findZone(name)
		if err != nil {
			return time.Time{}, err
		}
		at, err := time.ParseInLocation(layout, local, zone)
		if err != nil || at.Format(layout) != local || isAmbiguousTime(at, layout) {
			return time.Time{}, phrase.Errorf("is not one time in %s, where clocks are changed then: write it with an offset, such as +01:00", name)
		}
		return at, nil
	}
	return time.Time{}, momentError()
}

// isAmbiguousTime reports whether the clocks of a zone show a time twice, as at the end of daylight saving time.
func isAmbiguousTime(at time.Time, layout string) bool {
	for _, change := range []time.Duration{30 * time.Minute, time.Hour} { // all changes that exist
		if local := at.Format(layout); at.Add(change).Format(layout) == local || at.Add(-change).Format(layout) == local {
			return true
		}
	}
	return false
}

// findZone finds a zone by name. Abbreviations are refused: CST exists in America, Asia and Australia.
func findZone(name string) (*time.Location, error) {
	if name == "UTC" || name == "GMT" {
		return time.UTC, nil
	}
	if strings.Contains(name, "/") {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, phrase.Errorf("has no zone that is known: %q is none. Write an offset such as +01:00, UTC, or a name such as Europe/Berlin", truncateText(name))
}

func momentError() error {
	return phrase.Errorf("is not a time: write for example 2026-12-01 14:00 +01:00, 2026-12-01 14:00 Europe/Berlin or 2026-12-01T14:00:00Z")
}

// parseMomentOrNow is [parseMoment], and nil for now.
func parseMomentOrNow(s string) (*time.Time, error) {
	if s == nowWord {
		return nil, nil
	}
	at, err := parseMoment(s)
	if err != nil {
		return nil, err
	}
	return &at, nil
}
