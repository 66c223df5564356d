// Package ui is the dashboard: pages under /ui/ of the admin listener that show the cluster, the timers,
// the dead letters and the destinations, and that let operators change them. The pages are made on the
// server. A browser without script gets everything but the charts, which have tables.
package ui
