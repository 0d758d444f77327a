package cli

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// describeLimits shows the quotas and limit ranges of a namespace that gpuctl did not create.
func describeLimits(d *description, limits inventory.Limits) error {
	for _, quota := range limits.OtherQuotas {
		title := phrase.Textf("ResourceQuota %s, not of gpuctl", quota.Name)
		if len(quota.Scopes) > 0 {
			title = title.Addf(", for pods that are %s", phrase.Join(quoteWords(quota.Scopes), phrase.Textf(" and ")))
		}
		if err := describeRows(d, title.Localize(d.language), quota.Resources, otherBoundColumns()); err != nil {
			return err
		}
	}
	return describeRows(d, "LimitRanges: what each may have, and gets that says nothing", limits.LimitRanges, limitRangeColumns())
}

func otherBoundColumns() []column[inventory.OtherQuotaBound] {
	type bound = inventory.OtherQuotaBound
	return []column[bound]{
		{header: "RESOURCE", value: func(b bound) string { return b.Resource }},
		{header: "USED", value: func(b bound) string { return b.Used.String() }},
		{header: "HARD", value: func(b bound) string { return b.Hard.String() }},
		{header: "NOTE", localized: func(b bound, language phrase.Language) string { return language.TranslateMessage(b.Note) }, value: func(b bound) string { return b.Note }},
	}
}

func limitRangeColumns() []column[inventory.LimitRange] {
	type limit = inventory.LimitRange
	quantity := func(of func(limit) *resource.Quantity) func(limit) string {
		return func(l limit) string {
			if q := of(l); q != nil {
				return q.String()
			}
			return ""
		}
	}
	return []column[limit]{
		{header: "NAME", value: func(l limit) string { return l.Name }},
		{header: "OF", value: func(l limit) string { return l.Type }},
		{header: "RESOURCE", value: func(l limit) string { return l.Resource }},
		{header: "MIN", value: quantity(func(l limit) *resource.Quantity { return l.Min })},
		{header: "MAX", value: quantity(func(l limit) *resource.Quantity { return l.Max })},
		{header: "DEFAULT", value: quantity(func(l limit) *resource.Quantity { return l.Default })},
		{header: "REQUEST", value: quantity(func(l limit) *resource.Quantity { return l.DefaultRequest })},
	}
}
