package ui_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast: text differs from its background by 4.5 to 1 at least, in light and in dark.
func TestContrast(t *testing.T) {
	t.Parallel()
	sheet, err := os.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, _ := strings.Cut(string(sheet), "@media (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "\n}\n")
	for name, part := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, c := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(part, -1) {
			colours[c[1]] = c[2]
		}
		for text, grounds := range map[string][]string{
			"text": {"bg", "surface", "sunken", "good-bg", "warn-bg", "bad-bg", "info-bg"}, "muted": {"bg", "surface", "sunken", "good-bg", "warn-bg", "bad-bg"},
			"accent": {"bg", "surface", "sunken"}, "accent-strong": {"bg", "surface", "sunken"}, "on-accent": {"accent", "accent-strong"}, "surface": {"bad"},
			"good": {"surface", "sunken", "good-bg"}, "warn": {"surface", "sunken", "warn-bg"}, "bad": {"surface", "sunken", "bad-bg"}, "info": {"surface", "sunken", "info-bg"},
		} {
			for _, ground := range grounds {
				if colours[text] == "" || colours[ground] == "" {
					t.Errorf("%s: no colour %s or %s", name, text, ground)
				} else if got := contrast(t, colours[text], colours[ground]); got < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, text, ground, got)
				}
			}
		}
	}
}

// contrast is the ratio of WCAG 2.1.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light, dark := luminance(t, a), luminance(t, b)
	return (max(light, dark) + 0.05) / (min(light, dark) + 0.05)
}

func luminance(t *testing.T, colour string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
			continue
		}
		sum += weight * math.Pow((c+0.055)/1.055, 2.4)
	}
	return sum
}
