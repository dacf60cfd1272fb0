cd /srv/shop
git switch -qc release
echo 1.2 > VERSION
git add VERSION
git commit -qm 'Version 1.2'
